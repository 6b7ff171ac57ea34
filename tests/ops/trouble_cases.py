"""Several gateways, refused clients, processes that die: nothing of it costs anybody else."""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import Box, Gateway, LabError, expect, expect_equal
from lab.daemon import wait_until
from memif_peer import MemifPeer


def side_by_side(box: Box) -> None:
    first, second = box.gateway("first", link="one"), box.gateway("second", link="two")
    first.start_ready()
    second.start_ready()
    load_one = box.load(name="load-one", link="one", connections=1)
    load_two = box.load(name="load-two", link="two", connections=2)
    for load in (load_one, load_two):
        expect_equal("wrong answers", load.result()["wrong"], 0)
    expect_equal(
        "connections of each",
        [gateway.metrics().total("causeway_connections_total", result="established") for gateway in (first, second)],
        [1, 2],
    )
    second.terminate()
    expect_equal("wrong answers of the first, alone", box.load(link="one", seconds=1).result()["wrong"], 0)
    first.terminate()


def refused_by_address(box: Box) -> None:
    gateway = box.gateway(listener='allow = ["10.9.0.7/32"]')
    gateway.start_ready()
    load = box.load()
    expect_equal("exit status of the load", load.finish(30), 1)
    expect("0 of 1 connections" in load.output(), load.tail())
    expect_equal("refused by the ACL", gateway.metrics().total("causeway_connections_refused_total", reason="acl"), 1)
    gateway.terminate()


CLIENTS = """
[[client]]
name = "one"
prefixes = ["10.9.0.2/32"]
{what}
[[client]]
name = "all"
prefixes = ["10.9.0.0/24"]
allow = {others}
"""


def refused_by_client_section(box: Box) -> None:
    """The longest prefix decides: denied where the network is allowed, and limited where it is not."""
    gateway = box.gateway(extra=CLIENTS.format(what="allow = false", others="true"))
    gateway.start_ready()
    expect_equal("exit status of the load", box.load().finish(30), 1)
    expect_equal(
        "refused", gateway.metrics().total("causeway_client_connections_refused_total", client="one", reason="denied"), 1
    )
    expect("from 10.9.0.2 to port 20049 refused: [[client]] section one has allow = false" in gateway.output(), gateway.tail())
    gateway.terminate()
    gateway = box.gateway(
        "limited", extra=CLIENTS.format(what="connections_max = 2\ncredits = 5\nbytes_in_flight_max = 300000", others="false")
    )
    gateway.start_ready()
    load = box.load(name="many", connections=3, seconds=1)
    expect_equal("exit status of the load", load.finish(30), 1)
    expect("2 of 3 connections" in load.output(), load.tail())
    expect_equal("refused", gateway.metrics().total("causeway_client_connections_refused_total", client="one", reason="limit"), 1)
    expect("refused: [[client]] section one has its 2 connections" in gateway.output(), gateway.tail())
    load = box.load(name="large", connections=2, size=100_000, seconds=3)
    load.wait_connected()
    wait_until(lambda: gateway.metrics().total("causeway_client_calls_postponed_total", client="one") > 0, 10, "calls that wait")
    metrics = gateway.metrics()
    expect(metrics.total("causeway_rpc_stage_duration_seconds_sum", stage="rx") > 0, "calls wait, and stage rx has no time")
    expect_equal("credits", metrics.total("causeway_rpcrdma_credits_granted"), 10)
    expect_equal("credits of the section", metrics.total("causeway_client_credits_granted", client="one"), 10)
    expect(metrics.total("causeway_client_credits_in_use", client="one") <= 10, "more credits in use than the section has")
    expect(
        metrics.total("causeway_client_bytes_in_flight", client="one") <= 300_000,
        "more bytes in flight than the section may have",
    )
    _expect_shown(box, gateway)
    report = load.result()
    expect_equal("wrong answers, failed calls", (report["wrong"], report["failed"]), (0, 0))
    gateway.terminate()


def rates_of_a_section(box: Box) -> None:
    """Calls and bytes per second, of all of its connections together; a reload changes both. Only too much is wrong: how much this machine
    reaches is not asked."""
    gateway = box.gateway(extra=CLIENTS.format(what="calls_per_second = 2000", others="true"))
    gateway.start_ready()
    load = box.load(connections=4, size=20_000, seconds=12)
    load.wait_connected()

    def row() -> dict[str, Any]:
        return box.ctl_json(gateway, "top", "section", "one")["rows"][0]

    def settled(key: str, most: float) -> None:
        wait_until(lambda: 0 < row()[key] <= most * 1.1, 10, f"{key} of at most {most:g}")
        rate = row()[key]
        expect(most * 0.5 < rate <= most * 1.1, f"{key}: {rate:g}, where {most:g} are allowed")

    settled("calls_per_second", 2000)
    expect(gateway.metrics().total("causeway_client_calls_postponed_total", client="one") > 0, "nothing waited")
    config = box.directory / "gateway.toml"
    config.write_text(config.read_text().replace("calls_per_second = 2000", "bytes_per_second = 10_000_000"))
    box.ctl(gateway, "reload")
    wait_until(lambda: row()["calls_per_second"] < 400, 10, "the rate of bytes")
    both = row()
    rate = both["call_bytes_per_second"] + both["reply_bytes_per_second"]
    expect(5e6 < rate < 11e6, f"bytes: {rate:g} a second, where 10,000,000 are allowed")
    report = load.result()
    expect_equal("wrong answers, failed calls", (report["wrong"], report["failed"]), (0, 0))
    gateway.terminate()


def _expect_shown(box: Box, gateway: Gateway) -> None:
    """causewayctl clients, with two connections there and one refused."""
    one, others = box.ctl_json(gateway, "clients")["clients"]
    expect_equal(
        "the section",
        [
            one[key]
            for key in (
                "name",
                "prefixes",
                "allow",
                "connections",
                "connections_max",
                "credits_max",
                "bytes_in_flight_max",
                "refused_denied",
                "refused_limit",
            )
        ],
        ["one", ["10.9.0.2/32"], True, 2, 2, 5, 300_000, 0, 1],
    )
    expect(one["calls_postponed"] > 0 and one["bytes_in_flight"] <= 300_000, f"{one}")
    expect_equal("its credits", one["credits_granted"], 10)
    expect(0 <= one["credits_in_use"] <= 10, f"{one}")
    expect_equal(
        "the other one",
        [others[key] for key in ("name", "allow", "connections", "connections_max", "bytes_in_flight_max")],
        ["all", False, 0, None, None],
    )
    names = {
        words: [row["name"] for row in box.ctl_json(gateway, "clients", *words)["clients"]]
        for words in (("client", "10.9.0.2"), ("client", "10.9.0.7"), ("name", "one"), ("allow", "no"))
    }
    expect_equal("by filter", list(names.values()), [["one", "all"], ["all"], ["one"], ["all"]])
    for section, count in (("one", 2), ("all", 0)):
        rows = box.ctl_json(gateway, "connections", "section", section)["connections"]
        expect_equal(f"connections of {section}", [row["section"] for row in rows], [section] * count)
    # What a reload changes is shown as it is now.
    config = box.directory / "limited.toml"
    config.write_text(config.read_text().replace("credits = 5", "credits = 4").replace("10.9.0.0/24", "10.9.0.0/25"))
    box.ctl(gateway, "reload")
    now = box.ctl_json(gateway, "clients")["clients"]
    expect_equal("after the reload", [now[0]["credits_max"], now[1]["prefixes"]], [4, ["10.9.0.0/25"]])


GUESTS = """
[[client]]
name = "guests"
prefixes = ["10.9.0.2/32"]
connections_max = {connections}
"""


def a_reload_moves_client_sections(box: Box) -> None:
    """Sections come, change their networks and go under load: connections count where they began, and nobody is dropped."""
    gateway = box.gateway(extra=CLIENTS.format(what="connections_max = 2\nbytes_in_flight_max = 300000", others="true"))
    gateway.start_ready()
    config = box.directory / "gateway.toml"
    right = config.read_text()
    load = box.load(connections=2, size=100_000, seconds=8)
    load.wait_connected()

    def counted() -> dict[str, int]:
        return {row["name"]: row["connections"] for row in box.ctl_json(gateway, "clients")["clients"]}

    expect_equal("connections by section", counted(), {"one": 2, "all": 0})
    config.write_text(right.replace("10.9.0.2/32", "10.7.0.0/16") + GUESTS.format(connections=1))
    preview = box.ctl(gateway, "reload", "--dry-run")
    expect(
        'client[2]: - -> "guests"' in preview and "client[0].prefixes:" in preview and "with a restart" not in preview, preview
    )
    expect_equal("applied", box.ctl_json(gateway, "reload")["applied"], True)
    expect_equal("where they began", counted(), {"one": 2, "all": 0, "guests": 0})
    # All but one go. Who counts there goes on, and the section is shown until they end.
    config.write_text(right.split("[[client]]")[0] + GUESTS.format(connections=2))
    preview = box.ctl(gateway, "reload", "--dry-run")
    expect('client[0]: "one" -> -' in preview and "with a restart" not in preview, preview)
    box.ctl(gateway, "reload")
    expect_equal("removed with connections", counted(), {"guests": 0, "one": 2})
    rows = box.ctl_json(gateway, "connections", "section", "one")["connections"]
    expect_equal("connections of the removed section", len(rows), 2)
    calls = sum(row["rpcs"] for row in rows)
    postponed = gateway.metrics().total("causeway_client_calls_postponed_total", client="one")
    report = load.result()
    expect_equal("wrong, failed, lost", (report["wrong"], report["failed"], report["lost"]), (0, 0, 0))
    expect(report["calls"] > calls, f"calls after the section went: {calls} before, {report}")
    expect(
        gateway.metrics().total("causeway_client_calls_postponed_total", client="one") > postponed, "its budget held no longer"
    )
    wait_until(lambda: counted() == {"guests": 0}, 10, "the removed section to be shown no longer")
    # Those that come are the new section's.
    expect_equal("exit status of three guests", box.load(name="guests", connections=3, seconds=1).finish(30), 1)
    expect("[[client]] section guests has its 2 connections" in gateway.output(), gateway.tail())
    metrics = gateway.metrics()
    expect_equal(
        "refusals of guests", metrics.total("causeway_client_connections_refused_total", client="guests", reason="limit"), 1
    )
    expect('causeway_client_connections_refused_total{client="one"' in metrics.text, "the counters of a removed section vanished")
    expect('causeway_client_connections{client="one"}' not in metrics.text, "a gauge of a removed section is left")
    gateway.terminate()


def refused_without_listener(box: Box) -> None:
    gateway = box.gateway()
    gateway.start_ready()
    load = box.load("--port", 20050)
    expect_equal("exit status of the load", load.finish(30), 1)
    expect("invalid_service_id" in load.output() and "listener" in load.output(), load.tail())
    gateway.terminate()


def refused_by_limit(box: Box) -> None:
    gateway = box.gateway(listener="connections_max = 2")
    gateway.start_ready()
    start = time.monotonic()
    load = box.load(connections=3, seconds=1)
    expect_equal("exit status of the load", load.finish(30), 1)
    # The load fails when it hears of the refusal. Its start takes its time on a busy machine; 15 s is what it waits for answers.
    took = time.monotonic() - start
    expect(took < 12, f"the load went on for {took:.1f} s")
    # Three requests in one burst all find a place free: then the third connection is ended when the client has answered.
    told = "1 refused" in load.output() or "1 ended by the server" in load.output()
    expect("2 of 3 connections" in load.output() and told, load.tail())
    expect_equal("refused by the limit", gateway.metrics().total("causeway_connections_refused_total", reason="limit"), 1)
    gateway.terminate()


def restart_under_load(gateway_role: str, load_role: str, box: Box) -> None:
    """Whichever end holds the link, a restarted gateway is reached again by the load that runs."""
    load = box.load("--reconnect", role=load_role, connections=2, seconds=10) if load_role == "server" else None
    if load:
        wait_until((box.directory / "link.sock").exists, 30, "the load's end of the link")
    gateway = box.gateway(role=gateway_role)
    gateway.start_ready()
    if not load:
        load = box.load("--reconnect", role=load_role, connections=2, seconds=10)
    load.wait_connected()
    time.sleep(1)
    gateway.terminate()
    time.sleep(1)  # longer than the load needs to see that the link is gone, so that it meets an end that is not there
    gateway.start_ready()
    report = load.result()
    # What was in flight has been sent again and answered: nothing failed.
    expect_equal("wrong answers, failed calls", (report["wrong"], report["failed"]), (0, 0))
    expect_equal("calls sent again", report["resent"], report["interrupted"])
    expect_equal("connections made, lost", (report["connected"], report["lost"]), (4, 2))
    expect(gateway.metrics().total("causeway_backend_calls_total") > 0, "no calls after the restart")
    gateway.terminate()


def link_server_restarts(box: Box) -> None:
    """The gateway in the client role finds the next load, which makes the link anew."""
    first = box.load(role="server", seconds=60)
    wait_until((box.directory / "link.sock").exists, 30, "the load's end of the link")
    gateway = box.gateway(role="client")
    gateway.start_ready()
    first.wait_connected()
    first.kill()
    wait_until(lambda: not box.ctl_json(gateway, "status")["ports"][0]["link_up"], 10, "the gateway sees the link go")
    second = box.load(name="second", role="server", seconds=1)
    expect_equal("wrong answers", second.result()["wrong"], 0)
    gateway.terminate()


def load_killed(box: Box) -> None:
    gateway = box.gateway()
    gateway.start_ready()
    load = box.load(operation="source", size=262144, connections=4, seconds=60)
    load.wait_connected()
    time.sleep(0.5)
    load.kill()
    # The next client is served at once, beside what is left of the dead one.
    report = box.load(name="next", seconds=1).result()
    expect_equal("next client: wrong, failed, lost", (report["wrong"], report["failed"], report["lost"]), (0, 0, 0))
    gateway.terminate()


def dead_clients_end(box: Box) -> None:
    """With nobody else about: time alone ends them and gives back their credits."""
    gateway = box.gateway()
    gateway.start_ready()
    load = box.load(operation="source", size=262144, connections=4, seconds=60)
    load.wait_connected()
    time.sleep(0.5)
    load.kill()
    _wait_no_connections(gateway, 15)
    metrics = gateway.metrics()
    expect_equal("credits of nobody", metrics.total("causeway_rpcrdma_credits_granted"), 0)
    expect_equal("failed connections", metrics.total("causeway_connections_closed_total", reason="failed_transport"), 4)
    gateway.terminate()


def gateway_killed(box: Box) -> None:
    """What SIGKILL leaves behind (here the admin socket) does not keep the next one from starting."""
    load = box.load("--reconnect", role="server", connections=2, seconds=60)
    wait_until((box.directory / "link.sock").exists, 30, "the load's end of the link")
    gateway = box.gateway(role="client")
    gateway.start_ready()
    load.wait_connected()
    gateway.kill()
    gateway.start_ready()
    expect("ready" in box.ctl(gateway, "status"), "causewayctl gets no answer")
    gateway.terminate()


def _wait_no_connections(gateway: Gateway, timeout: float) -> None:
    wait_until(lambda: gateway.metrics().total("causeway_connections") == 0, timeout, "connections of dead clients end")


def flapping_link(box: Box) -> None:
    """The other end of a memif link comes and goes while the poll core polls: the driver takes its rings away each time. Half of
    the ends say so before, and some leave in the midst of the handshake."""
    gateway = box.gateway(idle="spin")
    gateway.start_ready()
    end = time.monotonic() + 5
    links = 0
    while time.monotonic() < end:
        with MemifPeer(box.directory / "link.sock", steps=6 if links % 8 else links // 8 % 6) as peer:
            links += 1
            if links % 2:
                peer.say_disconnect()
    expect(links > 50, f"only {links} links came about")
    expect_equal("wrong answers of a load afterwards", box.load(seconds=1).result()["wrong"], 0)
    gateway.terminate()


def knocks(box: Box) -> None:
    """A stranger knocks a hundred times at every socket that the gateway leaves in the file system, and goes before anybody speaks,
    or stays and says nothing. The gateway lives, and the next client gets its link."""
    gateway = box.gateway(metrics_extra="dpdk_telemetry = true")
    gateway.start_ready()
    sockets = [path for path in box.directory.rglob("*") if path.is_socket()]
    names = {path.name for path in sockets}
    expect({"link.sock", "gateway.admin", "dpdk_telemetry.v2"} <= names, f"sockets: {names}")
    for path in sockets:
        for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM, socket.SOCK_DGRAM):
            for _ in range(100):
                if not _knock(path, kind):
                    break
        gateway.check_alive()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(os.fspath(box.directory / "link.sock"))
        expect_equal("wrong answers", box.load(seconds=1).result()["wrong"], 0)
    expect_equal("ends that took too long", gateway.metrics().total("causeway_port_links_refused_total"), 1)
    expect("the handshake takes too long" in gateway.output(), gateway.tail())
    gateway.terminate()


def _knock(path: Path, kind: socket.SocketKind) -> bool:
    with socket.socket(socket.AF_UNIX, kind) as knocker:
        try:
            knocker.connect(os.fspath(path))
        except OSError:
            return False  # another kind of socket
    return True


def gives_bad_memory(box: Box) -> None:
    """What DPDK's driver would believe, and read where nothing is: the relay refuses it, and the next client gets its link."""
    gateway = box.gateway()
    gateway.start_ready()
    lies: list[Callable[[MemifPeer], None]] = [
        lambda peer: peer.add_region(1 << 40),
        lambda peer: (peer.add_region(), peer.add_ring(1, offset=0xFFFF_FF00)),
        lambda peer: (peer.add_region(), peer.add_ring(1, region=200)),
        lambda peer: (peer.add_region(), peer.add_ring(1), peer.add_ring(1)),
        lambda peer: (peer.add_region(), peer.connect()),
    ]
    for lie in lies:
        with MemifPeer(box.directory / "link.sock", steps=2) as peer:
            try:
                lie(peer)
            except ConnectionError as said:
                expect(r"\x08" in str(said), f"not a DISCONNECT message: {said}")
            else:
                raise LabError("the gateway took it")
        gateway.check_alive()
    expect_equal("refused", gateway.metrics().total("causeway_port_links_refused_total"), len(lies))
    expect_equal("wrong answers of a load afterwards", box.load(seconds=1).result()["wrong"], 0)
    gateway.terminate()


CASES = [
    ("a stranger who knocks at every socket costs the gateway nothing", knocks),
    ("a memif end that lies about its memory is refused", gives_bad_memory),
    ("a memif link that comes and goes costs the gateway nothing", flapping_link),
    ("two instances serve side by side", side_by_side),
    ("a client that the ACL does not allow is refused and counted", refused_by_address),
    ("a client of a port without listener is told so", refused_without_listener),
    ("a [[client]] section denies, and limits connections, credits and bytes in flight", refused_by_client_section),
    ("a [[client]] section keeps to its rates, and a reload changes them", rates_of_a_section),
    ("a reload under load adds, moves and removes [[client]] sections, and nobody is dropped", a_reload_moves_client_sections),
    ("a client beyond the listener's limit is refused and counted", refused_by_limit),
    ("a restart of the gateway under load costs no wrong answer", lambda box: restart_under_load("server", "client", box)),
    (
        "a restart of the gateway under load, which holds the link, costs no wrong answer",
        lambda box: restart_under_load("client", "server", box),
    ),
    ("a gateway in the link's client role finds a restarted server end", link_server_restarts),
    ("a killed client leaves the gateway serving the next one", load_killed),
    ("connections of a killed client end by themselves", dead_clients_end),
    ("a killed gateway starts again over what it left behind", gateway_killed),
]
ALONE = ["a memif link that comes and goes costs the gateway nothing"]  # its poll core spins
