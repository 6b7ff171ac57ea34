"""deploy/monitoring against real gateways and the real Prometheus: every query has an answer, healthy gateways are left in peace, and
troubles that can be made cheaply raise their alerts."""

import contextlib
import re
import resource
import signal
import socket
import threading
import time
import urllib.request

import pktgen_cases
from harness import LOAD_CPU, Box, Gateway, Program, expect, expect_equal, free_tcp_address
from iwarp_peer import IwarpPeer
from prometheus_server import Prometheus, as_grafana_sends, queries, start_prometheus

# Queries of dashboards that are rightly empty while nothing is wrong, and why.
RIGHTLY_EMPTY = {"annotation 'Alerts'": "marks alerts that fire"}
# What may be told of a gateway that has done nothing wrong: on a machine that others use; and a memif link is up only while the
# other side is there, which it is not between two loads.
ALLOWED = {
    "CausewayLcoreSaturated",
    "CausewayAckTimeouts",
    "CausewayRetransmitRatioHigh",
    "CausewayCountersStale",
    "CausewayPortDown",
}

# There is no such device here. Tests of promtool and of a made-up sysfs have them.
OF_RDMA_DEVICES = "causeway_rdma_port_"

# Seen in the tests of promtool only, and why. Some come by themselves beside those that are waited for.
NOT_PROVOKED = {
    "CausewayBackendSlow": "needs a backend that answers late",
    "CausewayConnectRateLimited": "needs a flood of well-formed connection requests",
    "CausewayCountersStale": "needs a poll core that hangs while the process answers",
    "CausewayCreditGrantsLowered": "needs thousands of calls that wait",
    "CausewayCreditViolation": "needs a client that ignores its credits",
    "CausewayDrainStuck": "an end takes seconds, and counts connections as closed at once; there is no other drain",
    "CausewayIwarpListenFailures": "needs a reload with a TCP port that somebody else has",
    "CausewayLogLost": "needs a full disk, or a reader of the log that is stuck; see the drills",
    "CausewayMempoolExhausted": "needs clients whose path MTU is far below the port's; see the drills",
    "CausewayMempoolLow": "the same",
    "CausewayPathMismatch": "needs a forger who knows a queue pair number",
    "CausewayRdmaPortDown": "needs an RDMA device",
    "CausewayRetransmitRatioHigh": "needs a link that loses packets for a while",
    "CausewayRnrStorm": "needs a client that posts no receive buffers",
    "CausewayRxMissed": "needs a NIC that runs out of descriptors",
    "CausewayTxDropped": "needs a link that is slower than the gateway",
}


def every_query_answers(box: Box) -> None:
    served = StrangeServer(closes=False)
    rates = "calls_per_second = 1000000\nbytes_per_second = 100000000000\n"  # more than there are
    gateway = box.gateway(
        listener=rates,
        extra=f'[[backend]]\nname = "served"\naddress = "{served.address}"\ncheck = "tcp"\n'
        '[[client]]\nname = "all"\nprefixes = ["0.0.0.0/0"]\nconnections_max = 50\nbytes_in_flight_max = 1073741824\n' + rates,
    )
    gateway.start_ready()
    server = start_prometheus(box, [gateway.metrics_address])
    for operation in ("sink", "source"):
        expect_equal("wrong answers", box.load(operation=operation, size=100_000, window=2, seconds=2).result()["wrong"], 0)
    load = box.load(connections=2, window=2, seconds=120)
    load.wait_connected()
    # Scrapes while the load runs, and rules that have seen them.
    server.wait_for(lambda: any(value == 2 for _, value in server.samples("causeway_connections offset 3s")), 30, "scrapes")
    during = time.time() - 1
    expect(load.alive(), f"the load ended early, last lines:\n{load.tail()}")
    server.expect_healthy_rules()
    told = {name for name, _ in server.seen_alerts()} - ALLOWED
    expect(not told, f"alerts about a healthy gateway: {', '.join(sorted(told))}")
    load.stop()
    # With the load out of the way, of the time when it was there.
    _expect_answers(server, during)
    gateway.terminate()
    served.close()


def _expect_answers(server: Prometheus, at: float) -> None:
    asked = queries.recording_rules() + queries.panel_queries() + queries.annotation_queries()
    empty = [f"{query.where}: {query.expr}" for query in asked if not server.samples(as_grafana_sends(query.expr), at)]
    empty = [each for each in empty if not any(known in each for known in RIGHTLY_EMPTY)]
    # An alert is rightly empty; each series that it looks at is not. And the expression has to be one that Prometheus takes.
    for query in queries.alert_rules():
        server.samples(query.expr, at)
        for selector in re.findall(r"\b(?:causeway_\w+|process_\w+|up|instance\w*:[\w:]+)(?:\{[^}]*\})?", query.expr):
            if not selector.startswith(OF_RDMA_DEVICES) and not server.samples(selector, at):
                empty.append(f"{query.where}: {selector}")
    for recorded in queries.recording_rules():
        if not server.samples(recorded.where, at):
            empty.append(f"recorded {recorded.where}")
    for variable in queries.variable_queries():
        if not server.api(f"label/{variable.label}/values", **{"match[]": as_grafana_sends(variable.selector)}):
            empty.append(f"{variable.where}: {variable.selector}")
    expect(not empty, "no answer to\n" + "\n".join(empty))


class StrangeServer:
    """A TCP server that never answers, or that closes when it is asked something."""

    def __init__(self, closes: bool) -> None:
        self._closes = closes
        self._kept: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            self._kept.append(taken)
            if self._closes:
                taken.recv(1)
                taken.close()

    def close(self) -> None:
        for taken in (self._listening, *self._kept):
            taken.close()


BACKENDS = """
[[listener]]
name = "{name}"
port = {port}
backend = "{name}"
credits = 1
[[backend]]
name = "{name}"
type = "tcp"
address = "{address}"
connect_timeout_ms = 1000
call_timeout_s = {call_timeout_s}
"""
REFUSING, SILENT, PATIENT, CLOSING = 20050, 20051, 20052, 20053
IWARP = """
[[listener]]
name = "iwarp"
transport = "iwarp"
address = "127.0.0.1"
port = {port}
backend = "{backend}"
"""
CONNECTIONS_MAX = 16
BUDGET = CONNECTIONS_MAX + 4  # of the clients' section: the listener that is limited is full before


def _troubled_gateway(box: Box, silent: StrangeServer, closing: StrangeServer, iwarp_port: int) -> Gateway:
    gateway = box.gateway("troubled", listener=f"connections_max = {CONNECTIONS_MAX}")
    config = box.directory / "troubled.toml"
    backends = (
        ("refusing", REFUSING, free_tcp_address(), 60),
        ("silent", SILENT, silent.address, 5),
        ("patient", PATIENT, silent.address, 60),
        ("closing", CLOSING, closing.address, 60),
    )
    text = "".join(
        BACKENDS.format(name=name, port=port, address=address, call_timeout_s=timeout)
        for name, port, address, timeout in backends
    )
    text += f'[[client]]\nname = "cluster"\nprefixes = ["10.9.0.0/24"]\nconnections_max = {BUDGET}\n'
    text += IWARP.format(port=iwarp_port, backend="bench")
    config.write_text(config.read_text() + text + "[roce]\nkeepalive_s = 1\n")
    gateway.start_ready()
    return gateway


def _flooded_gateway(box: Box) -> Gateway:
    """One whose port plays the same bad frames again and again."""
    frames, _ = pktgen_cases.generate(box, "malformed", *pktgen_cases.both_addresses())
    gateway = box.gateway("flooded", device=f"net_pcap0,rx_pcap={frames},infinite_rx=1")
    gateway.start_ready()
    return gateway


def flood_raises_alerts(box: Box) -> None:
    gateway = _flooded_gateway(box)
    server = start_prometheus(box, [gateway.metrics_address])
    # All of its time is a flood, so the busy share is that of the flood.
    server.wait_for_alerts(gateway.metrics_address, "IcrcErrors", "UnknownQpFlood", "LcoreSaturated")
    _expect_runbook(server, "CausewayIcrcErrors")
    for _ in range(3):
        gateway.terminate()
        gateway.start_ready()
        started = gateway.metrics().total("process_start_time_seconds")
        server.wait_for(
            lambda: any(value == started for _, value in server.samples("process_start_time_seconds")), 15, "a scrape"
        )
    server.wait_for_alerts(gateway.metrics_address, "Restarting")
    gateway.kill()
    server.wait_for_alerts(gateway.metrics_address, "Down")


def _expect_runbook(server: Prometheus, name: str) -> None:
    """The link of the alert leads to its paragraph."""
    alert = next(each for each in server.api("alerts")["alerts"] if each["labels"]["alertname"] == name)
    url, anchor = alert["annotations"]["runbook_url"].split("#")
    with urllib.request.urlopen(url, timeout=5) as response:
        text = response.read().decode()
    expect(f"## {name}\n" in text and anchor == name.lower(), f"no paragraph of {name} at {url}")


def troubles_raise_alerts(box: Box) -> None:
    silent, closing = StrangeServer(closes=False), StrangeServer(closes=True)
    try:
        iwarp_port = int(free_tcp_address().split(":")[1])
        gateway = _troubled_gateway(box, silent, closing, iwarp_port)
        server = start_prometheus(box, [gateway.metrics_address])
        _backend_troubles(box, gateway, server)
        _client_troubles(box, gateway, server)
        _iwarp_troubles(gateway, server, iwarp_port)
        _end_troubles(box, gateway, server, iwarp_port)
        _expect_all_accounted_for(server, gateway)
    finally:
        silent.close()
        closing.close()


def _backend_troubles(box: Box, gateway: Gateway, server: Prometheus) -> None:
    instance = gateway.metrics_address
    box.load("--port", REFUSING, name="refusing", seconds=1).finish(30)
    for _ in range(2):
        box.load("--port", CLOSING, name="closing", connections=4, seconds=1).finish(30)
    # Each connection has one credit, and no client sends more than one call before the first reply anyway.
    load = box.load("--port", SILENT, name="silent", connections=6, seconds=20)
    server.wait_for_alerts(instance, "BackendDown", "BackendConnectionsLost", "CreditStarvation", "BackendCallTimeouts")
    load.stop()


def _client_troubles(box: Box, gateway: Gateway, server: Prometheus) -> None:
    instance = gateway.metrics_address
    for turn in range(3):
        box.load(name=f"churn{turn}", connections=12, seconds=1).finish(30)
    # Those beyond the limit try again and again.
    many = box.load("--reconnect", name="many", connections=CONNECTIONS_MAX + 8, seconds=60)
    server.wait_for_alerts(instance, "ConnectionsRefused")
    many.stop()
    over = box.load("--reconnect", "--port", PATIENT, name="over", connections=BUDGET + 8, window=1, seconds=60)
    server.wait_for_alerts(instance, "ClientOverBudget")
    over.stop()
    rping = Program(
        "rping",
        [
            str(box.build / "tests/peers/causeway-verbs-peer"),
            "-d",
            box.device("client"),
            "-a",
            "10.9.0.2/24",
            "--mtu",
            "4500",
            "--lcore",
            str(LOAD_CPU),
            "--rping-client",
            "10.9.0.1",
            "--port",
            "20049",
            "-n",
            "1",
            "--timeout",
            "3",
        ],
        box.directory / "rping.log",
        box.env,
    )
    box.programs.append(rping)
    rping.start()
    rping.finish(30)
    # Nothing to send to them, so only keep-alive notices that they are gone.
    idle = box.load("--port", PATIENT, name="idle", connections=5, window=1, seconds=60)
    idle.wait_connected()
    idle.kill()
    server.wait_for_alerts(instance, "ConnectionChurn", "ProtocolViolations", "ClientsVanished", "PortDown")
    busy = box.load(operation="source", name="busy", size=262144, connections=12, seconds=60)
    busy.wait_connected()
    time.sleep(0.5)
    busy.kill()
    server.wait_for_alerts(instance, "RetriesExhausted", "AckTimeouts")


def _iwarp_troubles(gateway: Gateway, server: Prometheus, port: int) -> None:
    instance = gateway.metrics_address
    with IwarpPeer("127.0.0.1", port) as peer:
        peer.send(b"out of step", number=9)
        peer.receive()
    with IwarpPeer("127.0.0.1", port) as peer:
        peer.null_call()
        peer.socket.sendall(bytes(24))  # an empty FPDU whose CRC is not 0
        peer.receive()
    for _ in range(8):
        with socket.create_connection(("127.0.0.1", port), 5) as scanner:
            scanner.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                scanner.recv(1)
    server.wait_for_alerts(instance, "IwarpTerminates", "IwarpCrcErrors", "IwarpSetupFailures")


def _end_troubles(box: Box, gateway: Gateway, server: Prometheus, iwarp_port: int) -> None:
    instance = gateway.metrics_address
    config = box.directory / "troubled.toml"
    config.write_text(config.read_text() + "nonsense = 1\n")
    gateway.signal(signal.SIGHUP)
    server.wait_for_alerts(instance, "ReloadFailed")
    # Sockets to backends outlive their clients while calls are there: what is counted has to be what stays.
    server.wait_for(lambda: gateway.metrics().total("causeway_backend_connections") == 0, 30, "an end of all backend connections")
    descriptors = int(gateway.metrics().total("process_open_fds"))
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (descriptors + 2, descriptors + 2))
    server.wait_for_alerts(instance, "FileDescriptorsLow")
    _take_descriptors(iwarp_port)
    server.wait_for_alerts(instance, "IwarpAcceptFailures")
    # That few are not enough for the next client's link.
    gateway.kill()
    server.wait_for_alerts(instance, "Down")


def _take_descriptors(port: int) -> None:
    """Clients that wait for a second: they have the descriptors that a scrape takes."""
    with contextlib.ExitStack() as clients:
        for _ in range(6):
            # One for which there is no descriptor is reset at once, perhaps before it knows that it is connected.
            with contextlib.suppress(ConnectionResetError):
                clients.enter_context(socket.create_connection(("127.0.0.1", port), 5))
        time.sleep(1)


FLOOD_ALERTS = {"CausewayIcrcErrors", "CausewayUnknownQpFlood", "CausewayLcoreSaturated", "CausewayRestarting"}


def _expect_all_accounted_for(server: Prometheus, gateway: Gateway) -> None:
    seen = {name for name, instance in server.seen_alerts() if instance == gateway.metrics_address}
    silent = {query.where for query in queries.alert_rules()} - seen - FLOOD_ALERTS - set(NOT_PROVOKED)
    expect(not silent, f"neither provoked nor explained: {', '.join(sorted(silent))}")


CASES = [
    ("every query of dashboards, rules and alerts has an answer under load, and no alert fires", every_query_answers),
    ("backends and clients in trouble raise their alerts", troubles_raise_alerts),
    ("a flood of bad frames, restarts and a death raise their alerts", flood_raises_alerts),
]
