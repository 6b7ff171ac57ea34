"""A gateway of iWARP alone: without a port there is no DPDK, and it runs as an ordinary user. So does causeway-load."""

import json
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Optional, Sequence

from harness import GATEWAY_CPU, LOAD_CPU, Box, Gateway, Skip, expect, expect_equal, free_tcp_address
from iwarp_peer import IwarpPeer
from lab.daemon import wait_until
from lab.gateway_config import gateway_config

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs", "--bounding-set=-all"]
CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")


class PlainGateway(Gateway):
    port: int


def plain_gateway(box: Box, as_nobody: bool = False, idle: str = "sleep", listener: str = "", extra: str = "") -> PlainGateway:
    program, home, prefix = box.causewayd, box.directory, []
    if as_nobody:
        # Where the tree lies he may not be able to look.
        home = Path(tempfile.mkdtemp(prefix="cw-plain-"))
        program = Path(shutil.copy(box.causewayd, home))
        os.chown(home, NOBODY, NOBODY)
        os.chmod(home, 0o755)
        prefix = AS_NOBODY
    metrics, port = free_tcp_address(), int(free_tcp_address().split(":")[1])
    admin = str(home / "admin")
    config = home / "gateway.toml"
    config.write_text(
        gateway_config(
            instance=f"plain-{os.getpid()}",
            poll_lcores=GATEWAY_CPU,
            dataplane=f'idle = "{idle}"',
            listener=f'name = "bench"\ntransport = "iwarp"\naddress = "127.0.0.1"\nport = {port}\n{listener}',
            admin=admin,
            metrics=metrics,
            extra=extra,
        )
    )
    gateway = PlainGateway("gateway", [*prefix, str(program), "--config", str(config)], box.directory / "gateway.log", box.env)
    gateway.admin, gateway.metrics_address, gateway.port = admin, metrics, port
    box.programs.append(gateway)
    return gateway


def ordinary_user(box: Box) -> None:
    if os.geteuid() != 0:
        raise Skip("takes root, to become nobody")
    gateway = plain_gateway(box, as_nobody=True)
    gateway.start_ready()
    status = Path(f"/proc/{gateway.pid}/status").read_text()
    expect(f"Uid:\t{NOBODY}" in status and "CapEff:\t0000000000000000" in status, f"not an ordinary user:\n{status}")
    maps = Path(f"/proc/{gateway.pid}/maps").read_text()
    expect("huge" not in maps and "rtemap" not in maps, "it maps hugepages")
    expect("EAL" not in gateway.tail(), f"DPDK has started:\n{gateway.tail()}")
    with IwarpPeer("127.0.0.1", gateway.port) as peer:
        for _ in range(20):
            peer.null_call()
        _look(box, gateway)
    load = shutil.copy(box.causeway_load, Path(gateway.admin).parent)
    status, said = _load(box, gateway.port, "--op", "echo", "--bytes", "64k", prefix=AS_NOBODY, program=load)
    expect_equal(f"exit status, having said\n{said}\nof causeway-load", status, 0)
    done = box.run(box.causewayctl, "--socket", gateway.admin, "capture", "start", str(box.directory / "no.pcapng"))
    expect(done.returncode != 0 and "tcpdump" in done.stderr, f"capture without a port: {done.stderr!r}")
    gateway.terminate()
    shutil.rmtree(Path(gateway.admin).parent, ignore_errors=True)


def _look(box: Box, gateway: PlainGateway) -> None:
    row = box.ctl_json(gateway, "connections")["connections"][0]
    expect_equal("the connection", (row["wire"], row["local_qpn"], row["rpcs"], row["state"]), ("iWARP", None, 20, "established"))
    expect(row["round_trip_seconds"] > 0 and row["bytes_in"] >= 20 * 68, f"its traffic: {row}")
    qp = box.ctl_json(gateway, "qp")["queue_pairs"][0]
    expect_equal("its stream", (qp["state"], qp["crc"], qp["fpdus_in"], qp["fpdus_out"]), ("RTS", True, 20, 20))
    expect("iWARP -> 127.0.0.1: RTS" in box.ctl(gateway, "qp"), "qp as text")
    metrics = gateway.metrics()
    expect_equal("FPDUs counted", metrics.total("causeway_iwarp_fpdus_total", direction="rx"), 20)
    on_wires = (metrics.total("causeway_connections"), metrics.total("causeway_iwarp_connections"))
    expect_equal("connections, and those of iWARP", on_wires, (1, 1))
    expect_equal("ports", box.ctl_json(gateway, "status")["ports"], [])


def terminate_is_told(box: Box) -> None:
    gateway = plain_gateway(box)
    gateway.start_ready()
    with IwarpPeer("127.0.0.1", gateway.port) as peer:
        peer.null_call()
        peer.send(b"wrong", number=9)
        expect_equal("layer, type and code of the Terminate", peer.receive()[:2].hex(), "1203")
    wait_until(lambda: box.ctl_json(gateway, "connections")["connections"] == [], 10, "the connection's end")
    told = [(event["event"], event["reason"]) for event in box.ctl_json(gateway, "trace")["events"]]
    expect_equal("trace", told, [("connected", ""), ("terminate_sent", "untagged_message")])
    expect_equal(
        "Terminates counted",
        gateway.metrics().total("causeway_iwarp_terminates_total", direction="tx", cause="untagged_message"),
        1,
    )
    gateway.terminate()


def silence_has_a_bound(box: Box) -> None:
    """One says nothing, another stops in the middle of its MPA Request: neither stays."""
    gateway = plain_gateway(box, extra="[iwarp]\nhandshake_timeout_s = 1\n")
    gateway.start_ready()
    for beginning in (b"", b"MPA ID Req"):
        with socket.create_connection(("127.0.0.1", gateway.port), 10) as peer:
            peer.sendall(beginning)
            try:
                expect_equal("what the gateway has to say", peer.recv(100), b"")
            except ConnectionResetError:
                pass
    expect_equal(
        "handshakes that were given up",
        gateway.metrics().total("causeway_iwarp_setup_failures_total", reason="handshake_timeout"),
        2,
    )
    gateway.terminate()


def drained_and_reloaded(box: Box) -> None:
    gateway = plain_gateway(box)
    gateway.start_ready()
    peer = IwarpPeer("127.0.0.1", gateway.port)
    peer.null_call()
    config = Path(gateway.admin).parent / "gateway.toml"
    config.write_text(config.read_text().replace('name = "bench"\ntransport', 'name = "bench"\ncredits = 7\ntransport'))
    box.ctl(gateway, "reload")
    expect_equal("credits after a reload", box.ctl_json(gateway, "listeners")["listeners"][0]["credits"], 7)
    peer.null_call()
    box.ctl(gateway, "drain", "start", "--timeout", "5")
    wait_until(lambda: box.ctl_json(gateway, "connections")["connections"] == [], 10, "the drain's end")
    peer.close()
    gateway.terminate()


def reload_adds_listeners(box: Box) -> None:
    """One at an address of its own, and one whose port another program has."""
    gateway = plain_gateway(box)
    gateway.start_ready()
    own_port = int(free_tcp_address().split(":")[1])
    with socket.create_server(("127.0.0.1", 0)) as taken, IwarpPeer("127.0.0.1", gateway.port) as peer:
        listener = '[[listener]]\nname = "{}"\ntransport = "iwarp"\naddress = "127.0.0.1"\nport = {}\nbackend = "bench"\n'
        config = Path(gateway.admin).parent / "gateway.toml"
        more = listener.format("own", own_port) + listener.format("taken", taken.getsockname()[1])
        config.write_text(config.read_text() + more)
        box.ctl(gateway, "reload")
        gateway.wait_for_line("warning .*a listener could not take its address and port", 5)
        peer.null_call()
        with IwarpPeer("127.0.0.1", own_port) as another:
            another.null_call()
        try:
            socket.create_connection(("127.0.0.2", own_port), 5).close()
            raise AssertionError("the listener that was added takes connections at every address")
        except ConnectionRefusedError:
            pass
        expect(gateway.metrics().total("causeway_iwarp_tcp_listen_failures_total") > 0, "no failure was counted")
    gateway.terminate()


def idle_costs_little(box: Box) -> None:
    """Of turns, not of time: whoever measures CPU here measures the machine's other work."""
    gateway = plain_gateway(box)
    gateway.start_ready()
    peers = [IwarpPeer("127.0.0.1", gateway.port) for _ in range(64)]
    for peer in peers:
        peer.null_call()
    before, begin = gateway.metrics(), time.monotonic()
    time.sleep(2)
    after, seconds = gateway.metrics(), time.monotonic() - begin
    turns = after.total("causeway_lcore_polls_total") - before.total("causeway_lcore_polls_total")
    expect(turns / seconds < 400, f"{turns:g} turns in {seconds:.1f} s with 64 silent connections")
    for peer in peers:
        peer.null_call()
        peer.close()
    gateway.terminate()


EVERY_KIND = "null:2,echo/64:2,echo/6k:2,source/1m:1,sink/1m:1,callback/512:1"


def _load(
    box: Box, port: int, *words: object, prefix: Sequence[object] = (), program: Optional[object] = None, timeout: float = 60
) -> tuple[int, str]:
    done = box.run(
        *prefix,
        program or box.causeway_load,
        "--transport",
        "iwarp",
        "--server",
        "127.0.0.1",
        "--port",
        port,
        "--lcore",
        LOAD_CPU,
        "--warmup",
        0,
        "--seconds",
        1,
        *words,
        timeout=timeout,
    )
    return done.returncode, done.stdout + done.stderr


def loaded(box: Box) -> None:
    """Every kind of call, each in its chunks, checked to the byte; with CRCs and without."""
    gateway = plain_gateway(box, listener="reverse_credits = 8")
    gateway.start_ready()
    for crc in ((), ("--no-crc",)):
        report_file = box.directory / f"load{len(crc)}.json"
        status, said = _load(box, gateway.port, "--mix", EVERY_KIND, "-n", 4, "-w", 8, "--churn", 5, "--json", report_file, *crc)
        expect_equal(f"exit status, having said\n{said}\nof causeway-load", status, 0)
        report = json.loads(report_file.read_text())
        counts = {key: report[key] for key in ("wrong", "failed", "unanswered", "refused", "lost")}
        expect(not any(counts.values()), f"causeway-load: {counts}")
        expect(all(kind["calls"] > 0 for kind in report["mix"]), f"calls of each kind: {report['mix']}")
        expect_equal("the report's wire", report["options"]["transport"], "iwarp")
        expect("EAL" not in said, f"DPDK has started:\n{said}")
    wait_until(lambda: box.ctl_json(gateway, "connections")["connections"] == [], 10, "the load's goodbye")
    status, said = _load(box, gateway.port, "-n", 4, "--threads", 2)
    expect_equal(f"exit status, having said\n{said}\nof two threads", status, 0)
    gateway.terminate()


def load_says_why(box: Box) -> None:
    for words, sentence in (
        (("--device", "net_null0"), "--device: belongs to RoCE"),
        (("--gateway", "10.0.0.1"), "--gateway: belongs to RoCE"),
        (("--loss", 5), "use tc and netem"),
    ):
        status, said = _load(box, 1, *words)
        expect(status == 2 and sentence in said, f"{words}: {status}, {said!r}")
    done = box.run(box.causeway_load, "--server", "127.0.0.1")
    expect(done.returncode == 2 and "--transport iwarp" in done.stderr, f"without a device: {done.stderr!r}")
    for words, wanted, sentences in (
        (("--address", "10.0.0.2/24"), 2, ("--address: belongs to RoCE; with --transport verbs the RDMA device has the link",)),
        (("--no-crc",), 2, ("--no-crc: belongs to iWARP",)),
        (("--gateway", "10.0.0.1"), 2, ("--gateway: belongs to RoCE; with --transport verbs",)),
        (("--loss", 5), 2, ("--transport verbs: faults of the link",)),
        (("--device", "nothing0"), 1, ("there is no RDMA device 'nothing0'", "apt-get install librdmacm1")),
    ):
        done = box.run(box.causeway_load, "--transport", "verbs", "--server", "127.0.0.1", *words)
        expect(
            done.returncode == wanted and any(sentence in done.stderr for sentence in sentences),
            f"verbs, {words}: {done.returncode}, {done.stderr!r}",
        )
    status, said = _load(box, int(free_tcp_address().split(":")[1]))
    expect(
        status == 1 and "connection_refused" in said and "nobody listens at that TCP port" in said, f"nobody listens: {said!r}"
    )
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        status, said = _load(box, deaf.getsockname()[1])
    expect(status == 1 and "timeout" in said and "no answer in time" in said, f"who listens says nothing: {said!r}")
    gateway = plain_gateway(box, listener='allow = ["192.0.2.0/24"]')
    gateway.start_ready()
    status, said = _load(box, gateway.port)
    expect(status == 1 and "look at its access lists" in said, f"not on the list: {said!r}")
    gateway.terminate()


def doctor_of_iwarp_alone(box: Box) -> None:
    """As an ordinary user, who needs nothing of what DPDK needs; each fault names what fixes it."""
    if os.geteuid() != 0:
        raise Skip("takes root, to become nobody")
    gateway = plain_gateway(box, as_nobody=True)
    home = Path(gateway.admin).parent
    config, program = home / "gateway.toml", Path(shutil.copy(box.causewayctl, home))
    healthy = config.read_text()

    def doctor(status: int, **changes: str) -> list[dict[str, str]]:
        config.write_text(healthy)
        for old, new in changes.values():
            config.write_text(config.read_text().replace(old, new))
        done = box.run(*AS_NOBODY, program, "doctor", "--config", config, "--json")
        expect_equal(f"exit status, having said\n{done.stdout}\nof doctor", done.returncode, status)
        return json.loads(done.stdout)["findings"]

    def expect_listener(found: list[dict[str, str]], severity: str, what: str, fix: str = "") -> None:
        rows = [row for row in found if row["check"] == "listeners"]
        expect(
            len(rows) == 1 and rows[0]["severity"] == severity and what in rows[0]["what"] and fix in rows[0]["fix"],
            f"no {severity} {what!r}: {rows}",
        )

    found = doctor(0)
    of_dpdk = [row for row in found if row["check"] in ("hugepages", "memlock", "devices", "mtu", "numa") or "4791" in str(row)]
    expect(not of_dpdk, f"it speaks of what only DPDK needs: {of_dpdk}")
    expect_listener(found, "fine", f"TCP 127.0.0.1:{gateway.port} is free")
    may_be_said = {"configuration", "descriptors", "tcp", "crc", "firewall"}
    if CLOCK_SOURCE.read_text().strip() != "tsc":
        may_be_said.add("clock")  # of this machine, and true
    expect(may_be_said >= {row["check"] for row in found if row["severity"] != "fine"}, str(found))
    expect_listener(doctor(4, address=('"127.0.0.1"\nport', '"192.0.2.77"\nport')), "fault", "not an address", "ip address add")
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) > 111:
        expect_listener(
            doctor(4, port=(f"port = {gateway.port}\n", "port = 111\n")), "fault", "TCP port 111 is below", "low-port.conf"
        )
    with socket.create_server(("127.0.0.1", gateway.port)):
        expect_listener(doctor(4), "fault", "is taken by a program of another user", "ss -ltnp")
        said = box.run(box.causewayctl, "doctor", "--config", config).stdout
        expect(f"is taken by python3 (process {os.getpid()})" in said, f"who has the port: {said}")
    gateway.start_ready()
    expect_listener(doctor(0), "fine", "a gateway is running")
    gateway.terminate()
    shutil.rmtree(home, ignore_errors=True)


CASES = [
    ("iWARP alone runs as an ordinary user, without DPDK", ordinary_user),
    ("iWARP alone: causewayctl doctor asks for nothing of DPDK's, and says what is wrong", doctor_of_iwarp_alone),
    ("iWARP alone tells a peer what was wrong, and the operator", terminate_is_told),
    ("iWARP alone keeps no peer that says nothing", silence_has_a_bound),
    ("iWARP alone drains and reloads", drained_and_reloaded),
    ("iWARP alone: a reload adds listeners, and one finds its port taken", reload_adds_listeners),
    ("iWARP: causeway-load makes every kind of call, without DPDK", loaded),
    ("iWARP: causeway-load says why there is no connection", load_says_why),
    ("iWARP alone sleeps while 64 connections are silent", idle_costs_little),
]
