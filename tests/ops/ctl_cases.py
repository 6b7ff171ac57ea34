"""causewayctl's grammar against a running gateway: filters, --json, --watch, exit statuses."""

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Callable, Iterator

from harness import CREDITS, Box, Gateway, Load, Program, Skip, expect, expect_equal, free_tcp_address
from lab.daemon import wait_until


def _under_load(box: Box, *words: object, **options: Any) -> tuple[Gateway, Load]:
    gateway = box.gateway()
    gateway.start_ready()
    load = box.load(*words, **options)
    load.wait_connected()
    return gateway, load


def _ctl(box: Box, gateway: Gateway, *words: str) -> "subprocess.CompletedProcess[str]":
    return box.run(box.causewayctl, "--socket", gateway.admin, *words)


def filters_choose_rows(box: Box) -> None:
    gateway, load = _under_load(box, connections=3)
    rows = box.ctl_json(gateway, "connections", "show", "client", "10.9.0.0/24", "state", "established")["connections"]
    expect_equal("connections of the client's network", len(rows), 3)
    expect_equal("of another network", box.ctl_json(gateway, "conn", "client", "10.8.0.0/16")["connections"], [])
    one = box.ctl_json(gateway, "connections", "lqpn", hex(rows[1]["local_qpn"]))["connections"]
    expect_equal("the one with this queue pair", [row["id"] for row in one], [rows[1]["id"]])
    expect_equal("of no listener", box.ctl(gateway, "connections", "listener", "none"), "no connections\n")
    expect_equal("ports", [row["path_mtu"] for row in box.ctl_json(gateway, "ports", "link", "yes")["ports"]], [4096])
    expect_equal(
        "backends", [row["name"] for row in box.ctl_json(gateway, "backends", "show", "type", "builtin")["backends"]], ["bench"]
    )
    core = box.ctl_json(gateway, "cores", "show")["cores"][0]
    expect(core["busy_seconds"] > 0 and core["connections"] == 3, f"the core: {core}")
    load.result()
    gateway.terminate()


def top_says_who(box: Box) -> None:
    gateway, load = _under_load(box, connections=2, seconds=5)
    rates = box.ctl_json(gateway, "top")
    expect_equal("clients", [row["client"] for row in rates["rows"]], ["10.9.0.2"])
    row = rates["rows"][0]
    expect_equal("its connections and section", (row["connections"], row["section"]), (2, ""))
    expect(row["calls_per_second"] > 0 and row["reply_bytes_per_second"] > 0, f"idle: {row}")
    procedures = row["procedures"]
    expect(procedures and all(each["program"] == "bench" for each in procedures), f"procedures: {procedures}")
    expect(abs(sum(each["calls_per_second"] for each in procedures) / row["replies_per_second"] - 1) < 0.05, f"calls: {row}")
    expect_equal("of another network", box.ctl(gateway, "top", "client", "10.8.0.0/16"), "no such clients\n")
    expect_equal("sections", [row["section"] for row in box.ctl_json(gateway, "top", "by", "section")["rows"]], [""])
    watched = _ctl(box, gateway, "--json", "--watch", "0.2", "--count", "3", "top").stdout.splitlines()
    expect_equal("answers", len(watched), 3)
    expect("CALLS/s" in box.ctl(gateway, "top", "sort", "time"), "no table")
    wrong = _ctl(box, gateway, "top", "sort", "age")
    expect_equal("exit status of an order that does not exist", wrong.returncode, 2)
    expect("calls, bytes, time, errors" in wrong.stderr, f"says: {wrong.stderr}")
    load.result()
    wait_until(lambda: box.ctl_json(gateway, "top")["rows"][0]["connections"] == 0, 5, "the client is gone")
    gone = box.ctl_json(gateway, "top")["rows"][0]
    expect_equal("calls of who is gone", (gone["calls_per_second"], gone["procedures"]), (0, []))
    gateway.terminate()


def queue_pairs_tell_their_state(box: Box) -> None:
    gateway, load = _under_load(box, window=8, seconds=5)
    connection = box.ctl_json(gateway, "connections")["connections"][0]
    first = box.ctl_json(gateway, "qp", "show", "lqpn", str(connection["local_qpn"]))["queue_pairs"][0]
    expect_equal(
        "state, peer, connection",
        (first["state"], first["remote_qpn"], first["connection"]),
        ("RTS", connection["remote_qpn"], connection["id"]),
    )
    expect(first["packets_in_flight"] <= first["window_packets"] == 128, f"window: {first}")
    expect(0 < first["receives_posted"] <= CREDITS + 16, f"receives: {first['receives_posted']}")
    expect(0 < first["round_trip_seconds"] < 5, f"round trip: {first['round_trip_seconds']}")
    moved = ("packets_in", "payload_bytes_out")
    wait_until(
        lambda: all(box.ctl_json(gateway, "qp")["queue_pairs"][0][name] > first[name] for name in moved), 2, "something moves"
    )
    text = box.ctl(gateway, "qp", "lqpn", hex(connection["local_qpn"]))
    expect(re.search(r"RTS.*listener bench", text) is not None and "expected" in text and "round trip" in text, text)
    expect_equal("another number", box.ctl(gateway, "qp", "lqpn", "0xfffffe"), "no such queue pairs\n")
    load.result()
    gateway.terminate()


def trace_tells_what_happened(box: Box) -> None:
    """Frames are lost on the load's side of the link: what the gateway did about it can be read, also when the connection is gone."""
    gateway, load = _under_load(box, "--loss", 20, window=8, seconds=3)
    qpn = box.ctl_json(gateway, "connections")["connections"][0]["local_qpn"]
    load.result()
    events = box.ctl_json(gateway, "trace", "lqpn", hex(qpn))["events"]
    kinds = {event["event"] for event in events}
    expect({"nak_sent", "gap_report_sent", "gap_report_received"} <= kinds, f"events: {kinds}")
    expect(all(event["local_qpn"] == qpn for event in events), "events of others")
    ages = [event["ago_seconds"] for event in events]
    expect(ages == sorted(ages, reverse=True), "the oldest comes first")
    last = box.ctl_json(gateway, "trace", "show", "lqpn", str(qpn), "event", "destroyed")["events"]
    expect_equal("its end", [(event["event"], event["count"]) for event in last], [("destroyed", 1)])
    text = box.ctl(gateway, "trace", "last", "1")
    expect(re.match(r" *AGO  QPN .*\n.*destroyed.*\n\d+ older ones are left out", text) is not None, f"as text: {text}")
    expect_equal("of nobody", box.ctl(gateway, "trace", "lqpn", "0xfffffe"), "nothing out of the ordinary is remembered\n")
    gateway.terminate()


def schema_explains_every_number(box: Box) -> None:
    gateway, load = _under_load(box)
    load.result()
    schema = {row["name"]: row for row in box.ctl_json(gateway, "stats", "schema")["schema"]}
    for name in box.ctl_json(gateway, "stats")["stats"]:
        family = name.split("{")[0]
        base = re.sub(r"_(count|sum)$", "", family)
        row = schema.get(family) or schema.get(base)
        expect(row is not None and row["help"] != "", f"{name} has no schema")
    expect_equal(
        "a counter of bytes", [schema["causeway_roce_bytes_total"][key] for key in ("kind", "unit")], ["counter", "bytes"]
    )
    expect_equal(
        "a histogram of times",
        [schema["causeway_rpc_duration_seconds"][key] for key in ("kind", "unit")],
        ["histogram", "seconds"],
    )
    gateway.terminate()


def watching_prints_again(box: Box) -> None:
    gateway, load = _under_load(box, seconds=3)
    done = _ctl(box, gateway, "--json", "connections", "--watch", "0.2", "--count", "3")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    expect_equal("answers, one a line", len(answers), 3)
    rpcs = [answer["connections"][0]["rpcs"] for answer in answers]
    expect(rpcs[0] < rpcs[1] < rpcs[2], f"calls do not grow: {rpcs}")
    expect_equal(
        "text without a terminal", _ctl(box, gateway, "status", "-w", "0.1", "--count", "2").stdout.count("Listeners"), 2
    )
    load.result()
    gateway.terminate()


def errors_are_json_too(box: Box) -> None:
    wrong = box.run(box.causewayctl, "--json", "conections")
    expect_equal("exit status of wrong usage", wrong.returncode, 2)
    said = json.loads(wrong.stdout)
    expect_equal("kind", said["kind"], "usage")
    expect("did you mean 'connections'" in said["error"] and "--help" in wrong.stderr, wrong.stderr)
    nobody = box.run(box.causewayctl, "--json", "--socket", box.directory / "none.sock", "status")
    expect_equal(
        "exit status without a gateway, kind", (nobody.returncode, json.loads(nobody.stdout)["kind"]), (1, "unreachable")
    )
    again = box.run(box.causewayctl, "--socket", box.directory / "none.sock", "status", "--watch", "1")
    expect_equal("watching nobody ends", again.returncode, 1)


def drains_under_load(box: Box) -> None:
    """Busy clients lose no call; readyz, metrics and causewayctl tell of it; afterwards they come back."""
    gateway = box.gateway()
    gateway.start_ready()
    load = box.load("--reconnect", connections=8, window=8, seconds=8)
    load.wait_connected()
    expect_equal("before", box.ctl_json(gateway, "drain")["state"], "serving")
    done = _ctl(box, gateway, "drain", "start", "--wait", "--timeout", "30")
    expect_equal(f"exit status of drain --wait, which said {done.stdout!r}", done.returncode, 0)
    expect("drained: 0 connections left, 8 ended in order, 0 by force" in done.stdout, done.stdout)
    metrics = gateway.metrics()
    expect_equal("draining, ready", (metrics.total("causeway_draining"), metrics.total("causeway_ready")), (1, 0))
    expect_equal("drained", metrics.total("causeway_connections_closed_total", reason="drained"), 8)
    ready = box.run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://{gateway.metrics_address}/readyz")
    expect_equal("/readyz", ready.stdout, "503")
    expect_equal("connections", box.ctl_json(gateway, "connections")["connections"], [])
    expect_equal("stop", box.ctl_json(gateway, "drain", "stop")["state"], "serving")
    report = load.result()
    expect_equal("calls failed, answers wrong", (report["failed"], report["wrong"]), (0, 0))
    expect_equal("drained, of every connection", metrics.total("causeway_connections_closed_total", reason="closed_by_us"), 0)
    expect(gateway.metrics().total("causeway_connections_total", result="established") >= 16, "the clients did not come back")
    gateway.wait_for_line(r"drain begun by .*uid \d+", 1)
    gateway.terminate()


def a_drain_ends_in_time(box: Box) -> None:
    """A backend that never answers keeps its connections until the time is up; the exit status tells."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        more = (
            # check: a NULL call would find out soon that it answers nothing, and clients would be refused.
            f'[[backend]]\nname = "silent"\naddress = "127.0.0.1:{silent.getsockname()[1]}"\ncheck = "tcp"\n'
            f'[[listener]]\nport = 20050\nbackend = "silent"\n'
        )
        gateway = box.gateway(extra=more)
        gateway.start_ready()
        # One connection: a second one may wait for the first one's call (replay guard), and ends in order then.
        box.load("--port", 20050, connections=1, window=1, seconds=20)
        _until(lambda: sum(row["calls_in_flight"] for row in box.ctl_json(gateway, "connections")["connections"]) == 1)
        done = _ctl(box, gateway, "drain", "start", "--wait", "--timeout", "1")
        expect_equal(f"exit status of a drain by force, which said {done.stdout!r}", done.returncode, 4)
        expect("drained: 0 connections left, 0 ended in order, 1 by force" in done.stdout, done.stdout)
        gateway.wait_for_line(r"the time is up, 1 connection", 1)
        gateway.terminate()


AS_NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


def gateway_open_to_nobody(box: Box, admin: str = "") -> tuple[Gateway, list[object]]:
    """A gateway whose socket user and group 65534 may open, and causewayctl as that user. admin: another line of [admin]."""
    if box.run(*AS_NOBODY, "true").returncode != 0:
        raise Skip("cannot become another user")
    gateway = box.gateway()
    config = box.directory / "gateway.toml"
    config.write_text(config.read_text().replace("[admin]", f'[admin]\ngroup = "65534"\n{admin}'))
    gateway.start_ready()
    # The program itself may lie where others cannot look.
    program = box.directory / "causewayctl"
    shutil.copy(box.causewayctl, program)
    program.chmod(0o755)
    return gateway, [*AS_NOBODY, program]


def administrators_capture_with_their_own_rights(box: Box) -> None:
    """causewayd is root, and the administrator is not: where he may not write, no capture is written. And readers who stay on the
    socket, as many as they like, leave a place to those who may change something."""
    gateway, causewayctl = gateway_open_to_nobody(box, 'admins = ["65534"]')

    def capture(file: Path) -> "subprocess.CompletedProcess[str]":
        return box.run(*causewayctl, "--socket", gateway.admin, "capture", "start", file)

    of_root = box.directory / "root"
    of_root.mkdir(mode=0o755)
    (of_root / "passwd").write_text("root:x:0:0")
    own = box.directory / "own"
    own.mkdir()
    own.chmod(0o777)
    (own / "link").symlink_to(of_root / "new")
    for file in (of_root / "new", of_root / "passwd", own / "link"):
        expect_equal(f"exit status for {file}", capture(file).returncode, 1)
    # By hand, without an open file: the gateway does not open what it is told.
    said = _raw(gateway, {"command": "capture_start", "file": os.fspath(of_root / "new")})
    expect("open for writing" in said["error"], str(said))
    expect_equal(
        "what is there",
        (sorted(path.name for path in of_root.iterdir()), (of_root / "passwd").read_text()),
        (["passwd"], "root:x:0:0"),
    )
    done = capture(own / "mine.pcapng")
    expect_equal(f"exit status, with {done.stderr!r}", done.returncode, 0)
    box.ctl(gateway, "capture", "stop")
    status = (own / "mine.pcapng").stat()
    expect_equal("owner, mode", (status.st_uid, status.st_mode & 0o777), (65534, 0o600))
    expect(status.st_size > 0, "nothing is in it")
    gateway.terminate()


def readers_leave_places(box: Box) -> None:
    """Whoever may look connects as often as he can and stays; root and the others are answered all the same."""
    gateway, _ = gateway_open_to_nobody(box)
    stay = (
        "import socket, sys, time\nall = []\nfor _ in range(40):\n all.append(socket.socket(socket.AF_UNIX))\n"
        " all[-1].connect(sys.argv[1])\nprint('there', flush=True)\ntime.sleep(60)\n"
    )
    crowd = Program("crowd", [*AS_NOBODY, sys.executable, "-c", stay, gateway.admin], box.directory / "crowd.log", box.env)
    box.programs.append(crowd)
    crowd.start()
    crowd.wait_for_line("there", 20)
    for _ in range(20):
        expect("ready" in box.ctl(gateway, "status"), "no answer to root")
    gateway.terminate()


def _raw(gateway: Gateway, request: dict[str, str]) -> Any:
    with socket.socket(socket.AF_UNIX) as admin:
        admin.settimeout(10)
        admin.connect(gateway.admin)
        admin.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(admin.makefile().readline())


def a_drain_needs_an_administrator(box: Box) -> None:
    """A user who may open the socket may look; to change something takes more."""
    gateway, causewayctl = gateway_open_to_nobody(box)
    config = box.directory / "gateway.toml"

    def as_nobody(*words: str) -> "subprocess.CompletedProcess[str]":
        return box.run(*causewayctl, "--socket", gateway.admin, *words)

    expect_equal("looking", as_nobody("status").returncode, 0)
    for words in (("drain", "start"), ("reload",), ("log", "level", "debug")):
        refused = as_nobody(*words, "--json")
        expect_equal(f"exit status of {words}", refused.returncode, 3)
        said = json.loads(refused.stdout)
        expect(said["kind"] == "refused" and "may look and not change anything" in said["error"], refused.stdout)
    expect_equal("a preview", as_nobody("reload", "--dry-run").returncode, 0)
    expect_equal("state", box.ctl_json(gateway, "drain")["state"], "serving")
    gateway.terminate()
    config.write_text(config.read_text().replace("[admin]", '[admin]\nadmins = ["65534"]'))
    gateway.start_ready()
    expect_equal("one who is named", as_nobody("log", "level", "debug").returncode, 0)
    expect_equal("log level", box.ctl(gateway, "log"), "debug\n")
    gateway.terminate()


def reloads_with_a_preview(box: Box) -> None:
    gateway = box.gateway(extra='[log]\nlevel = "info"')
    gateway.start_ready()
    config = box.directory / "gateway.toml"
    expect_equal("no changes", box.ctl_json(gateway, "reload", "--dry-run")["changes"], [])
    right = config.read_text()
    config.write_text(right.replace('level = "info"', 'level = "warning"').replace("mtu = 4500", "mtu = 1500"))
    preview = box.ctl(gateway, "reload", "--dry-run")
    expect(
        'at once\n  log.level: "info" -> "warning"\nwith a restart\n  port[0].mtu: 4500 -> 1500 (devices are opened at the start)\n'
        in preview,
        preview,
    )
    expect_equal("a preview changes nothing", box.ctl(gateway, "log", "level"), "info\n")
    report = box.ctl_json(gateway, "reload")
    expect_equal("applied", (report["valid"], report["applied"]), (True, True))
    expect_equal("after the reload", box.ctl(gateway, "log", "level"), "warning\n")
    shown = {row["key"]: row["value"] for row in box.ctl_json(gateway, "config", "show")["settings"]}
    expect_equal("settings", (shown["log.level"], shown["port[0].mtu"]), ('"warning"', "4500"))
    config.write_text(right.replace("mtu = 4500", "mut = 4500"))
    wrong = _ctl(box, gateway, "reload")
    expect_equal("exit status of a file that is wrong", wrong.returncode, 4)
    expect("did you mean 'mtu'" in wrong.stdout and "nothing is changed" in wrong.stdout, wrong.stdout)
    check = box.run(box.causewayctl, "config", "check", config, "--json")
    expect_equal("config check", (check.returncode, json.loads(check.stdout)["problems"][0]["key"]), (4, "port.mut"))
    config.write_text(right)
    expect_equal("config check of a right file", box.run(box.causewayctl, "config", "check", config).returncode, 0)
    gateway.terminate()


def a_reload_keeps_connections(box: Box) -> None:
    """Who may connect changes without a restart: the connection that is there goes on, the next is refused, and let in again later."""
    gateway, load = _under_load(box, seconds=4)
    config = box.directory / "gateway.toml"
    right = config.read_text()
    config.write_text(right.replace("[[listener]]\n", '[[listener]]\nallow = ["10.7.0.0/16"]\n', 1))
    preview = box.ctl(gateway, "reload", "--dry-run")
    expect("at once\n  listener[0].allow:" in preview and "with a restart" not in preview, preview)
    expect_equal("applied", box.ctl_json(gateway, "reload")["applied"], True)
    calls = box.ctl_json(gateway, "connections")["connections"][0]["rpcs"]
    report = load.result()
    expect(report["calls"] > calls and report["wrong"] == 0 and report["lost"] == 0, f"the connection that was there: {report}")
    refused = box.load(name="refused", seconds=1)
    expect(refused.finish(30) != 0, "a client of another network is let in")
    expect(gateway.metrics().total("causeway_connections_refused_total", reason="acl") > 0, "no refusal is counted")
    config.write_text(right)
    box.ctl(gateway, "reload")
    box.load(name="again", seconds=1).result()
    gateway.terminate()


def a_reload_moves_listeners(box: Box) -> None:
    """A listener goes under load, and another one comes at another port: who is there goes on, the old port refuses, the new serves."""
    gateway, load = _under_load(box, seconds=6)
    config = box.directory / "gateway.toml"
    right = config.read_text()
    moved = right.replace("[[listener]]\n", '[[listener]]\nname = "moved"\nport = 20055\n', 1)
    config.write_text(moved)
    preview = box.ctl(gateway, "reload", "--dry-run")
    expect(
        'listener[0]: - -> "moved"' in preview and 'listener[0]: "bench" -> -' in preview and "with a restart" not in preview,
        preview,
    )
    expect_equal("applied", box.ctl_json(gateway, "reload")["applied"], True)
    rows = box.ctl_json(gateway, "connections")["connections"]
    row, row_count = rows[0], len(rows)
    expect_equal("the listener of who is there", row["listener"], "bench")
    listeners = {each["name"]: (each["connections"], each["removed"]) for each in box.ctl_json(gateway, "status")["listeners"]}
    expect_equal("listeners", listeners, {"moved": (0, False), "bench": (row_count, True)})
    shown = box.ctl(gateway, "listeners", "removed", "yes")
    expect("bench (removed)" in shown and "\nmoved" not in shown, shown)
    report = load.result()
    expect_equal("wrong, failed, lost", (report["wrong"], report["failed"], report["lost"]), (0, 0, 0))
    expect(report["calls"] > row["rpcs"], f"the connection that was there: {report}")
    refused = box.load(name="refused", seconds=1)
    expect_equal("exit status at the old port", refused.finish(30), 1)
    expect("invalid_service_id" in refused.output(), refused.tail())
    later = box.load("--port", 20055, name="later", seconds=1).result()
    metrics = gateway.metrics()
    expect(
        metrics.total("causeway_route_calls_total", listener="moved") >= later["calls"] > 0, f"calls by the new listener: {later}"
    )
    expect(
        metrics.total("causeway_route_calls_total", listener="bench") >= report["calls"],
        "the counters of the old listener vanished",
    )
    # Its name stays at its port; and it comes back as what it was.
    config.write_text(right.replace("[[listener]]\n", "[[listener]]\nport = 20056\n", 1))
    wrong = _ctl(box, gateway, "reload")
    expect_equal("exit status", wrong.returncode, 4)
    expect("there was a listener 'bench' at port 20049" in wrong.stdout and "nothing is changed" in wrong.stdout, wrong.stdout)
    config.write_text(moved.replace("20055", "20056"))
    waits = box.ctl(gateway, "reload", "--dry-run")
    expect("with a restart\n  listener[0].port: 20055 -> 20056 (" in waits, waits)
    config.write_text(right)
    box.ctl(gateway, "reload")
    box.load(name="again", seconds=1).result()
    expect_equal("exit status at the port that went", box.load("--port", 20055, name="gone", seconds=1).finish(30), 1)
    gateway.terminate()


def pings_backends(box: Box) -> None:
    """The built-in one answers; so does a server that does not know NFS; nobody at a port is said as such."""
    server = free_tcp_address()
    nobody = free_tcp_address()
    more = "".join(
        f'[[backend]]\nname = "{name}"\naddress = "{address}"\nconnect_timeout_ms = 500\n[[listener]]\nport = {port}\n'
        f'backend = "{name}"\n'
        for name, address, port in (("server", server, 20050), ("nobody", nobody, 20051))
    )
    gateway = box.gateway(extra=more)
    gateway.start_ready()
    one = box.ctl_json(gateway, "ping", "bench")["pings"][0]
    expect_equal("bench", (one["backend"], one["alive"], one["outcome"]), ("bench", True, "success"))
    expect(0 < one["call_seconds"] < 5, f"time of the call: {one}")
    with tcp_server(server):
        alive = box.ctl_json(gateway, "ping", "server", "program", "0x186a3", "version", "3")["pings"][0]
        expect_equal("a server without the program", (alive["alive"], alive["outcome"]), (True, "program unavailable"))
        expect(alive["connect_seconds"] > 0, f"time of the connection: {alive}")
    every = _ctl(box, gateway, "ping", "--json")
    expect_equal("exit status with one that is gone", every.returncode, 4)
    outcomes = {row["backend"]: row["outcome"] for row in json.loads(every.stdout)["pings"]}
    expect_equal("outcomes", outcomes, {"bench": "success", "server": "not reached", "nobody": "not reached"})
    unknown = _ctl(box, gateway, "ping", "nonsense")
    expect_equal("exit status of an unknown backend", unknown.returncode, 1)
    expect("causewayctl backends" in unknown.stderr, unknown.stderr)
    gateway.terminate()


@contextmanager
def tcp_server(address: str) -> Iterator[None]:
    """Answers every RPC call over TCP with PROG_UNAVAIL (RFC 5531)."""
    host, port = address.split(":")
    with socket.create_server((host, int(port))) as listener:
        listener.settimeout(10)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        record = client.recv(4096)
                        reply = record[4:8] + struct.pack(">IIIII", 1, 0, 0, 0, 1)
                        client.sendall(struct.pack(">I", 0x8000_0000 | len(reply)) + reply)
                        client.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)  # wakes who waits for a client


def doctor_sees_what_is_missing(box: Box) -> None:
    """Without a gateway, and with one; each fault names what fixes it."""
    nobody = free_tcp_address()
    more = (
        f'[[backend]]\nname = "gone"\naddress = "{nobody}"\n[[listener]]\nport = 20050\nbackend = "gone"\n'
        f'[[listener]]\nname = "rnic"\ntransport = "verbs"\ndevice = "siw_none0"\nport = 20051\nbackend = "gone"\n'
        f'[[port]]\ndevice = "net_af_packet0,iface=cwnone0"\naddresses = ["192.0.2.1/24"]\n'
        f'[[port]]\ndevice = "eth0"\naddresses = ["192.0.2.2/24"]\n'
        f'[[port]]\ndevice = "net_bogus0"\naddresses = ["192.0.2.3/24"]\n'
    )
    config = box.write_config(metrics="off", extra=more, dataplane="memory_mb = 1048576")
    config.write_text(config.read_text().replace("[admin]\n", '[admin]\nadmins = ["cwnobody"]\n'))
    sick = box.run(box.causewayctl, "doctor", "--config", config, "--json")
    expect_equal("exit status", sick.returncode, 4)
    found = {(row["check"], row["severity"]): row for row in json.loads(sick.stdout)["findings"]}
    expect("gone" in found["backends", "fault"]["what"] and "start the server" in found["backends", "fault"]["fix"], sick.stdout)
    said = {(row["check"], row["what"]) for row in json.loads(sick.stdout)["findings"] if row["severity"] == "fault"}
    for check, word in (
        ("devices", "cwnone0"),
        ("devices", "'eth0' is no device"),
        ("devices", "no driver net_bogus"),
        ("memory", "1048576 MiB"),
        ("names", "'cwnobody'"),
    ):
        expect(any(check == row[0] and word in row[1] for row in said), f"no fault of {check} with {word} in {sick.stdout}")
    rdma = [row for row in json.loads(sick.stdout)["findings"] if row["check"] == "rdma" and "RDMA device" in row["what"]]
    expect(any(row["severity"] == "fault" and "siw" in row["fix"] for row in rdma), sick.stdout)
    expect(("crc", "fine") in found or ("crc", "warning") in found, "nothing was timed")
    gateway = box.gateway()
    gateway.start_ready()
    well = box.run(box.causewayctl, "doctor", "--config", box.directory / "gateway.toml")
    expect_equal(f"exit status with a gateway, which said {well.stdout}", well.returncode, 0)
    expect("a gateway is running and answers" in well.stdout and "0 faults" in well.stdout, well.stdout)
    gateway.terminate()
    broken = box.run(box.causewayctl, "doctor", "--config", box.directory / "none.toml")
    expect_equal("exit status without a file", broken.returncode, 4)


def captures_without_secrets(box: Box) -> None:
    """tshark reads what was captured; data and handles are not in it unless asked for."""
    if shutil.which("tshark") is None:
        raise Skip("there is no tshark")
    gateway, load = _under_load(box, operation="sink", size=100_000, connections=2, window=2, seconds=6)
    qpn = box.ctl_json(gateway, "qp")["queue_pairs"][0]["local_qpn"]
    redacted, whole = box.directory / "redacted.pcapng", box.directory / "whole.pcapng"
    nobody = box.ctl_json(gateway, "capture", "start", str(box.directory / "none.pcapng"), "client", "192.0.2.0/24")
    expect_equal("state", nobody["state"], "running")
    again = _ctl(box, gateway, "capture", "start", str(whole))
    expect("a capture is running" in again.stderr and again.returncode == 1, f"{again.returncode} {again.stderr}")
    expect_equal("frames of nobody", box.ctl_json(gateway, "capture", "stop")["packets"], 0)
    box.ctl(gateway, "capture", "start", str(redacted), "lqpn", hex(qpn), "packets", "400")
    _until(lambda: box.ctl_json(gateway, "capture")["state"] == "complete")
    complete = box.ctl_json(gateway, "capture")["dropped"]
    time.sleep(0.3)
    over = box.ctl_json(gateway, "capture", "stop")
    expect_equal("frames that were counted as dropped after the capture was complete", over["dropped"] - complete, 0)
    expect_equal("packets", (over["packets"], over["with_payload"]), (400, False))
    box.ctl(gateway, "capture", "start", str(whole), "packets", "300", "--with-payload")
    _until(lambda: box.ctl_json(gateway, "capture")["state"] == "complete")
    box.ctl(gateway, "capture", "stop")
    exists = _ctl(box, gateway, "capture", "start", str(whole))
    expect("is not overwritten" in exists.stderr, exists.stderr)
    load.result()
    gateway.terminate()

    def fields(file: Path, name: str) -> list[str]:
        done = box.run("tshark", "-r", file, "-T", "fields", "-e", name, timeout=60)
        expect_equal(f"tshark, which said {done.stderr}", done.returncode, 0)
        return done.stdout.split("\n")[:-1]

    opcodes = fields(redacted, "infiniband.bth.opcode")
    expect_equal("packets in the file, all RoCE", (len(opcodes), "" in opcodes), (400, False))
    ours = {
        int(value, 16)
        for value, source in zip(fields(redacted, "infiniband.bth.destqp"), fields(redacted, "ip.src"))
        if source == "10.9.0.2"
    }
    expect_equal("queue pairs that the client sends to", ours, {qpn})
    keys = {value for value in fields(redacted, "infiniband.reth.r_key") if value}
    expect_equal("R_Keys", {int(key, 16) for key in keys}, {0})
    expect(max(int(value) for value in fields(redacted, "frame.cap_len")) > 4000, "frames lost their length")
    responses = [text for text in fields(redacted, "data.data") if text]
    expect(any(len(text) > 8000 for text in responses), "no frame with data")
    expect_equal("data that are shown", {text.strip("0:") for text in responses if len(text) > 8000}, {""})
    for file in (redacted, whole):
        summary = box.run("tshark", "-r", file, timeout=60).stdout
        bad = [line for line in summary.splitlines() if "Malformed" in line or "Invalid Packet" in line]
        expect_equal(f"frames of {file.name} that tshark cannot decode", bad[:3], [])
    expect(any(int(key, 16) for key in fields(whole, "infiniband.reth.r_key") if key), "no R_Key with payload")
    expect(max(int(value) for value in fields(whole, "frame.cap_len")) > 4000, "no payload with payload")


def _until(done: Callable[[], bool], limit_s: float = 10) -> None:
    end = time.monotonic() + limit_s
    while not done():
        expect(time.monotonic() < end, "it does not end")
        time.sleep(0.05)


CASES = [
    ("causewayctl capture shows no secrets, and tshark reads it", captures_without_secrets),
    ("causewayctl doctor sees what is missing", doctor_sees_what_is_missing),
    ("causewayctl ping asks backends over the whole way", pings_backends),
    ("causewayctl drain --wait under load fails no call", drains_under_load),
    ("causewayctl drain --timeout ends what does not end", a_drain_ends_in_time),
    ("causewayctl changes nothing for those who may only look", a_drain_needs_an_administrator),
    ("causewayctl capture writes where its user may write, and nowhere else", administrators_capture_with_their_own_rights),
    ("readers who stay on the admin socket keep nobody else away", readers_leave_places),
    ("causewayctl reload previews and applies", reloads_with_a_preview),
    ("causewayctl reload changes who may connect, and drops nobody", a_reload_keeps_connections),
    ("causewayctl reload under load moves a listener, and drops nobody", a_reload_moves_listeners),
    ("causewayctl filters choose rows", filters_choose_rows),
    ("causewayctl top says which clients do what", top_says_who),
    ("causewayctl qp show tells the transport state", queue_pairs_tell_their_state),
    ("causewayctl trace tells what happened to a queue pair", trace_tells_what_happened),
    ("causewayctl stats schema explains every number", schema_explains_every_number),
    ("causewayctl --watch prints again", watching_prints_again),
    ("causewayctl --json makes JSON of errors", errors_are_json_too),
]
