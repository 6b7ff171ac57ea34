"""Several servers behind a gateway: one dies under load, and its clients land on the next."""

import os
import re
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

from cores_cases import OWN_NETWORK, run_in_own_network
from harness import Box, Gateway, Program, Skip, expect, expect_equal, free_tcp_address
from lab.daemon import wait_until

PORT = 20055
SECTIONS = """
[[listener]]
name = "served"
port = {port}
backend = "served"
[[backend]]
name = "served"
address = "{address}"
{more}
"""


def serve(box: Box, name: str, port: int = 0) -> tuple[Program, str]:
    """The bench program over TCP on the loopback interface, and its address."""
    peer = box.build / "tests/bench/tcp_peer"
    if not peer.exists():
        raise Skip(f"{peer} is not built")
    program = Program(name, ["stdbuf", "-oL", str(peer), "serve", "--port", str(port)], box.directory / f"{name}.log", box.env)
    box.programs.append(program)
    program.start()
    program.wait_for_line(r"^port \d+", 10)
    found = re.search(r"^port (\d+)", Path(program.log).read_text(), re.MULTILINE)
    assert found is not None
    return program, f"127.0.0.1:{found[1]}"


def _of_servers(box: Box, gateway: Gateway, field: str) -> dict[str, Any]:
    return {row["address"]: row[field] for row in box.ctl_json(gateway, "servers")["servers"]}


def states(box: Box, gateway: Gateway) -> dict[str, object]:
    return _of_servers(box, gateway, "up")


def gateway_before(box: Box, address: str, more: str) -> Gateway:
    gateway = box.gateway()
    config = box.directory / "gateway.toml"
    config.write_text(config.read_text() + SECTIONS.format(port=PORT, address=address, more=more))
    gateway.start_ready()
    return gateway


def server_dies_under_load(box: Box) -> None:
    first, first_address = serve(box, "first")
    _, second_address = serve(box, "second")
    gateway = gateway_before(box, first_address, f'backups = ["{second_address}"]\ncheck_interval_ms = 200\ncheck_fall = 2')
    wait_until(lambda: states(box, gateway) == {first_address: True, second_address: True}, 20, "both servers to be up")
    load = box.load("--reconnect", "--port", PORT, connections=4, seconds=8)
    load.wait_connected()
    expect_equal("connections by server", _of_servers(box, gateway, "connections"), {first_address: 4, second_address: 0})
    expect_equal("where new connections go", _of_servers(box, gateway, "preferred"), {first_address: True, second_address: False})
    wait_until(lambda: _of_servers(box, gateway, "calls_in_flight")[first_address] > 0, 10, "calls at the first server")
    first.kill()
    wait_until(lambda: states(box, gateway) == {first_address: False, second_address: True}, 20, "the first server to be down")
    expect_equal("where new connections go", _of_servers(box, gateway, "preferred"), {first_address: False, second_address: True})
    report = load.result()
    expect_equal("wrong answers, failed calls", (report["wrong"], report["failed"]), (0, 0))
    expect_equal("calls at servers in the end", set(_of_servers(box, gateway, "calls_in_flight").values()), {0})
    # Who comes back before the death is known connects, and is disconnected when no backend connection can be made.
    expect(4 <= report["lost"] <= 8, f"connections lost: {report['lost']}")
    expect_equal("connections made and not lost", report["connected"] - report["lost"], 4)
    expect_equal("calls sent again", report["resent"], report["interrupted"])
    metrics = gateway.metrics()
    expect_equal(
        "backend up, first, second",
        [metrics.total("causeway_backend_up", backend="served")]
        + [metrics.total("causeway_backend_server_up", server=server) for server in (first_address, second_address)],
        [1, 0, 1],
    )
    expect(
        f"server {first_address} is down" in gateway.output() and f"new connections go to {second_address}" in gateway.output(),
        gateway.tail(),
    )
    # It comes back, and who connects now goes there.
    serve(box, "again", int(first_address.rpartition(":")[2]))
    wait_until(lambda: states(box, gateway)[first_address] is True, 20, "the first server to be up again")
    load = box.load("--port", PORT, name="later", connections=2, seconds=2)
    load.wait_connected()
    wait_until(
        lambda: gateway.metrics().total("causeway_backend_server_connections", server=first_address) == 2,
        10,
        "connections to the first server",
    )
    expect_equal("wrong answers", load.result()["wrong"], 0)
    gateway.terminate()


def all_servers_dead(box: Box) -> None:
    """Nobody asked for them, and still it is known: the checks say so, and the gateway is not ready."""
    gateway = gateway_before(box, free_tcp_address(), f'backups = ["{free_tcp_address()}"]')
    wait_until(lambda: set(states(box, gateway).values()) == {False}, 20, "both servers to be down")
    expect_equal("backend up", gateway.metrics().total("causeway_backend_up", backend="served"), 0)
    text = box.ctl(gateway, "servers")
    expect("backup" in text and "Connection refused" in text, text)
    expect_equal("servers that are up", box.ctl(gateway, "servers", "up", "yes"), "no such servers\n")
    load = box.load("--port", PORT, seconds=1)
    expect_equal("exit status of the load", load.finish(30), 1)
    expect_equal("refused for the backend", gateway.metrics().total("causeway_connections_refused_total", reason="backend"), 1)
    time.sleep(0.1)
    gateway.terminate()


BENCH_PROGRAM = 536922878


def routed_by_program(box: Box) -> None:
    """The listener's own backend gets the connection, and that of the route the calls; without the former others are refused."""
    own, own_address = serve(box, "own")
    routed, routed_address = serve(box, "routed")
    more = f"""
[[backend]]
name = "routed"
address = "{routed_address}"
[[route]]
listener = "served"
program = {BENCH_PROGRAM}
backend = "routed"
[[listener]]
name = "closed"
port = {PORT + 1}
[[route]]
listener = "closed"
program = 100005
backend = "routed"
"""
    gateway = gateway_before(box, own_address, more)
    load = box.load("--port", PORT, connections=2, seconds=3)
    load.wait_connected()
    wait_until(
        lambda: gateway.metrics().total("causeway_backend_calls_total", backend="routed") > 0, 10, "calls to the routed backend"
    )
    metrics = gateway.metrics()
    connections = [metrics.total("causeway_backend_connections", backend=name) for name in ("served", "routed")]
    expect_equal("connections to the backends", connections, [2, 2])
    report = load.result()
    expect_equal("wrong answers, failed calls", (report["wrong"], report["failed"]), (0, 0))
    calls = [gateway.metrics().total("causeway_backend_calls_total", backend=name) for name in ("served", "routed")]
    expect(calls[0] == 0 and calls[1] >= report["calls"], f"calls to the backends: {calls}")
    # A program that the listener has no backend for.
    box.load("--port", PORT + 1, name="closed", seconds=1).finish(30)
    expect(gateway.metrics().total("causeway_calls_unrouted_total") > 0, "no call was refused for want of a route")
    _expect_routes(box, gateway, report["calls"])
    own.kill()
    routed.kill()
    gateway.terminate()


def _expect_routes(box: Box, gateway: Gateway, answered: int) -> None:
    rows = {(row["listener"], row["program"]): row for row in box.ctl_json(gateway, "routes")["routes"]}
    backends = {key: row["backend"] for key, row in rows.items()}
    expect_equal(
        "backends by listener and program",
        backends,
        {
            ("bench", None): "bench",
            ("served", BENCH_PROGRAM): "routed",
            ("served", None): "served",
            ("closed", 100005): "routed",
            ("closed", None): "",
        },
    )
    metrics = gateway.metrics()
    expect(rows["served", BENCH_PROGRAM]["calls"] >= answered, f"{rows}, and {answered} calls were answered")
    expect_equal(
        "calls without a route",
        [rows["served", None]["calls"], rows["closed", None]["calls"]],
        [0, metrics.total("causeway_calls_unrouted_total")],
    )
    expect_equal(
        "the same in the metrics",
        metrics.total("causeway_route_calls_total", program=str(BENCH_PROGRAM)),
        rows["served", BENCH_PROGRAM]["calls"],
    )
    text = box.ctl(gateway, "routes", "listener", "closed")
    expect("mountd" in text and "none: PROG_UNAVAIL" in text and "served" not in text, text)
    expect_equal("routes to no backend of that name", box.ctl(gateway, "routes", "backend", "absent"), "no such routes\n")


def a_reload_moves_backends(box: Box) -> None:
    """Servers, checks, routes, credits and inline sizes change under load: no call fails, and who comes next finds what is new."""
    old, old_address = serve(box, "old")
    _, new_address = serve(box, "new")
    gateway = gateway_before(box, old_address, "check_interval_ms = 60000\ncheck_fall = 9")
    config = box.directory / "gateway.toml"
    right = config.read_text()
    load = box.load("--port", PORT, connections=4, seconds=6)
    load.wait_connected()
    wait_until(lambda: states(box, gateway) == {old_address: True}, 20, "the server to be up")
    moved = (
        right.replace(f'address = "{old_address}"', f'address = "{new_address}"')
        .replace("= 60000", "= 200")
        .replace("= 9", "= 1")
    )
    moved = moved.replace('name = "served"\nport', 'name = "served"\ncredits = 8\ninline_bytes = 2048\nport')
    config.write_text(moved + f'[[route]]\nlistener = "served"\nprogram = {BENCH_PROGRAM}\nbackend = "served"\n')
    preview = box.ctl(gateway, "reload", "--dry-run")
    expect("with a restart" not in preview and "route[0]:" in preview and "backend[1].address:" in preview, preview)
    expect_equal("applied", box.ctl_json(gateway, "reload")["applied"], True)
    wait_until(lambda: states(box, gateway).get(new_address) is True, 20, "the new server to be checked and up")
    rows = {row["address"]: (row["role"], row["connections"]) for row in box.ctl_json(gateway, "servers")["servers"]}
    expect_equal("servers", rows, {new_address: ("primary", 0), old_address: ("removed", 4)})
    credits = {row["credits_granted"] for row in box.ctl_json(gateway, "connections")["connections"]}
    expect_equal("credits of the connections that were there", credits, {64})
    report = load.result()
    expect_equal("wrong, failed, lost", (report["wrong"], report["failed"], report["lost"]), (0, 0, 0))
    wait_until(lambda: states(box, gateway) == {new_address: True}, 20, "the old server to have no connection any more")
    old.kill()
    load = box.load("--port", PORT, name="later", connections=2, seconds=4)
    load.wait_connected()
    row = box.ctl_json(gateway, "connections")["connections"][0]
    expect_equal("credits, inline size", (row["credits_granted"], row["inline_receive_bytes"]), (8, 2048))
    expect_equal(
        "connections to the new server", gateway.metrics().total("causeway_backend_server_connections", server=new_address), 2
    )
    expect_equal("credits of the listener", gateway.metrics().total("causeway_listener_credits", listener="served"), 8)
    # The program goes elsewhere for those who come later.
    config.write_text(moved + f'[[route]]\nlistener = "served"\nprogram = {BENCH_PROGRAM}\nbackend = "bench"\n')
    box.ctl(gateway, "reload")
    report = load.result()
    expect_equal("wrong, failed, lost", (report["wrong"], report["failed"], report["lost"]), (0, 0, 0))
    expect_equal("calls to the other backend", gateway.metrics().total("causeway_backend_calls_total", backend="bench"), 0)
    report = box.load("--port", PORT, name="last", seconds=1).result()
    metrics = gateway.metrics()
    expect(metrics.total("causeway_backend_calls_total", backend="bench") >= report["calls"] > 0, f"the route: {report}")
    rows = {row["program"]: row for row in box.ctl_json(gateway, "routes", "listener", "served")["routes"]}
    expect_equal(
        "routes now", {program: row["backend"] for program, row in rows.items()}, {BENCH_PROGRAM: "bench", None: "served"}
    )
    for backend in ("bench", "served"):  # each way keeps its counter, that of before the reload too
        expect_equal(
            f"calls to {backend}",
            metrics.total("causeway_route_calls_total", listener="served", backend=backend),
            metrics.total("causeway_backend_calls_total", backend=backend),
        )
    expect_equal(
        "calls by the route that is there",
        rows[BENCH_PROGRAM]["calls"],
        metrics.total("causeway_route_calls_total", listener="served", backend="bench"),
    )
    # More than the buffers back: refused with the number, and nothing changes.
    config.write_text(moved.replace("credits = 8\n", "credits = 1024\n"))
    refused = box.run(box.causewayctl, "--socket", gateway.admin, "reload")
    expect_equal("exit status", refused.returncode, 4)
    expect("cannot back" in refused.stdout and "nothing is changed" in refused.stdout, refused.stdout)
    expect_equal("credits of the listener", gateway.metrics().total("causeway_listener_credits", listener="served"), 8)
    gateway.terminate()


def a_reload_brings_backends(box: Box) -> None:
    """Another backend takes the place of the one that a load is at: that goes on, and who comes next is served by the new one."""
    old, old_address = serve(box, "old")
    _, new_address = serve(box, "new")
    gateway = gateway_before(box, old_address, "check_interval_ms = 200")
    config = box.directory / "gateway.toml"
    right = config.read_text()
    load = box.load("--port", PORT, connections=4, seconds=6)
    load.wait_connected()
    wait_until(lambda: states(box, gateway) == {old_address: True}, 20, "the server to be up")
    moved = right.replace('backend = "served"', 'backend = "fresh"').replace(
        '[[backend]]\nname = "served"', '[[backend]]\nname = "fresh"'
    )
    moved = moved.replace(old_address, new_address)
    config.write_text(moved)
    preview = box.ctl(gateway, "reload", "--dry-run")
    expect(
        'backend[1]: - -> "fresh"' in preview and 'backend[1]: "served" -> -' in preview and "with a restart" not in preview,
        preview,
    )
    expect_equal("applied", box.ctl_json(gateway, "reload")["applied"], True)
    wait_until(lambda: states(box, gateway).get(new_address) is True, 20, "the new backend to be checked and up")
    rows = {
        row["address"]: (row["backend"], row["role"], row["connections"]) for row in box.ctl_json(gateway, "servers")["servers"]
    }
    expect_equal("servers", rows, {new_address: ("fresh", "primary", 0), old_address: ("served", "removed", 4)})
    expect_equal("backends", [row["name"] for row in box.ctl_json(gateway, "backends")["backends"]], ["bench", "fresh"])
    expect_equal("a ping of the new one", box.ctl_json(gateway, "ping", "fresh")["pings"][0]["alive"], True)
    calls = sum(row["rpcs"] for row in box.ctl_json(gateway, "connections")["connections"])
    report = load.result()
    expect_equal("wrong, failed, lost", (report["wrong"], report["failed"], report["lost"]), (0, 0, 0))
    expect(report["calls"] > calls, f"calls after the reload: {calls} before it, {report}")
    wait_until(lambda: states(box, gateway) == {new_address: True}, 20, "the old backend to have no connection any more")
    old.kill()
    report = box.load("--port", PORT, name="later", connections=2, seconds=2).result()
    expect_equal("wrong, failed, lost", (report["wrong"], report["failed"], report["lost"]), (0, 0, 0))
    metrics = gateway.metrics()
    expect(
        metrics.total("causeway_backend_calls_total", backend="fresh") >= report["calls"] > 0,
        f"calls at the new backend: {report}",
    )
    expect(metrics.total("causeway_backend_calls_total", backend="served") > 0, "the counters of the removed backend vanished")
    expect('causeway_backend_up{backend="served"}' not in metrics.text, "a removed backend is up or down")
    expect_equal(
        "calls by route",
        metrics.total("causeway_route_calls_total", listener="served", backend="fresh"),
        metrics.total("causeway_backend_calls_total", backend="fresh"),
    )
    _expect_what_a_backend_is_stays(box, gateway, config, moved)
    _expect_room_for_backends(box, gateway, config, moved)
    gateway.terminate()


def _refused(box: Box, gateway: Gateway, text: str) -> None:
    refused = box.run(box.causewayctl, "--socket", gateway.admin, "reload")
    expect_equal("exit status", refused.returncode, 4)
    expect(text in refused.stdout and "nothing is changed" in refused.stdout, refused.stdout)


def _expect_what_a_backend_is_stays(box: Box, gateway: Gateway, config: Path, right: str) -> None:
    config.write_text(right + '[[backend]]\nname = "served"\ntype = "builtin"\nprograms = ["bench"]\n')
    _refused(box, gateway, "there was a backend 'served' of another type or source")
    config.write_text(right.replace('name = "fresh"\naddress', 'name = "fresh"\nsource = "client"\naddress'))
    waits = box.ctl(gateway, "reload", "--dry-run")
    expect('with a restart\n  backend[1].source: "gateway" -> "client" (' in waits, waits)


def _expect_room_for_backends(box: Box, gateway: Gateway, config: Path, right: str) -> None:
    """Three have been: with 14 new names a reload, the numbers of 32 are out at the third."""

    def named(prefix: str) -> str:
        return right + "".join(f'[[backend]]\nname = "{prefix}{i}"\naddress = "127.0.0.1:9"\ncheck = "off"\n' for i in range(14))

    for prefix in ("a", "b"):
        config.write_text(named(prefix))
        expect_equal("applied", box.ctl_json(gateway, "reload")["applied"], True)
    config.write_text(named("c"))
    _refused(box, gateway, "there have been 31 backends since the start")
    config.write_text(named("a"))
    expect_equal("names that there were", box.ctl_json(gateway, "reload")["applied"], True)
    box.load("--port", PORT, name="last", seconds=1).result()


SOURCE_CASE = 'a server sees the address of each client with source = "client"'


def source_is_the_client(box: Box, name: str) -> None:
    """The client's address is one of loopback too, in place of the routes that bring answers to other people's addresses back."""
    if OWN_NETWORK not in os.environ:
        run_in_own_network(box, name)
        return
    for words in (("link", "set", "lo", "up"), ("addr", "add", "10.9.0.2/32", "dev", "lo")):
        subprocess.run(["ip", *words], check=True)
    _, address = serve(box, "server")
    gateway = gateway_before(box, address, 'source = "client"')
    load = box.load("--port", PORT, connections=3, seconds=2)
    load.wait_connected()
    seen = subprocess.run(
        ["ss", "-Htn", "state", "established", "dport", "=", ":" + address.split(":")[1]],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    sources = [line.split()[2].rsplit(":", 1)[0] for line in seen.splitlines()]
    expect_equal("the client's connections", sources.count("10.9.0.2"), 3)
    load.result()
    gateway.terminate()
    bare = ["setpriv", "--bounding-set=-net_admin,-net_raw", "--inh-caps=-net_admin,-net_raw"]
    config = box.directory / "gateway.toml"
    refused = box.run(*bare, box.causewayd, "--config", config)
    expect("takes CAP_NET_RAW" in refused.stderr and refused.returncode == 1, f"without the right: {refused}")
    # Nor by a reload.
    config.write_text(config.read_text().replace('source = "client"\n', ""))
    gateway.argv[:0] = bare
    gateway.start_ready()
    config.write_text(config.read_text() + f'[[backend]]\nname = "borrowed"\nsource = "client"\naddress = "{address}"\n')
    _refused(box, gateway, 'source = "client" takes CAP_NET_RAW')
    gateway.terminate()


CASES = [
    (SOURCE_CASE, partial(source_is_the_client, name=SOURCE_CASE)),
    ("a server dies under load: its clients land on the next, and go back when it is there again", server_dies_under_load),
    ("calls go to the backend of their program's route", routed_by_program),
    ("a reload under load moves servers, checks, routes, credits and inline sizes, and no call fails", a_reload_moves_backends),
    ("a reload under load brings a backend and takes another away, and nobody is dropped", a_reload_brings_backends),
    ("a backend whose servers are all down is known to be before a client asks", all_servers_dead),
]
