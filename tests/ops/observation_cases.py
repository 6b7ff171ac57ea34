"""causewayctl and /metrics while a load runs: they agree with the load, and with each other."""

import gzip
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from harness import CREDITS, ROOT, SERVICE_PORT, Box, Gateway, Load, Program, Skip, expect, expect_equal
from lab.daemon import wait_until
from lab.metrics import Metrics
from prometheus_server import start_prometheus

# A packet that was repeated without need ends up here: no defect, but a sign of a busy machine. All other reasons are defects.
REPETITION = ("duplicate", "out_of_sequence", "psn_stale")

SINK_BYTES = 65536  # with RDMA Reads, so that a call takes some time


def _under_load(box: Box, **options: Any) -> tuple[Gateway, Load]:
    gateway = box.gateway()
    gateway.start_ready()
    load = box.load(**options)
    load.wait_connected()
    return gateway, load


def status_agrees(box: Box) -> None:
    gateway, load = _under_load(box, connections=3)
    status = box.ctl_json(gateway, "status")
    expect_equal("ready", (status["ready"], status["draining"]), (True, False))
    expect_equal("connections", status["connections"], 3)
    port, listener, backend = status["ports"][0], status["listeners"][0], status["backends"][0]
    expect_equal("port", (port["link_up"], port["mtu"], port["path_mtu"], port["addresses"]), (True, 4500, 4096, ["10.9.0.1/24"]))
    expect_equal("driver", (port["driver"], port["queues"], port["steering"]), ("net_memif", 1, "none"))
    expect_equal("listener", (listener["port"], listener["credits"], listener["connections"]), (SERVICE_PORT, CREDITS, 3))
    expect_equal("backend", (backend["name"], backend["type"], backend["up"]), ("bench", "builtin", True))
    text = box.ctl(gateway, "status")
    for word in ("ready", "3 connections", "10.9.0.1/24", "bench", str(SERVICE_PORT)):
        expect(word in text, f"status does not say {word!r}:\n{text}")
    load.result()
    gateway.terminate()


def connections_agree(box: Box) -> None:
    gateway, load = _under_load(box, window=8)
    rows = box.ctl_json(gateway, "connections")["connections"]
    expect_equal("connections", len(rows), 1)
    row = rows[0]
    expect_equal(
        "peer, state, listener", (row["peer_address"], row["state"], row["listener"]), ("10.9.0.2", "established", "bench")
    )
    expect_equal("credits granted", row["credits_granted"], CREDITS)
    expect_equal("inline, path MTU", (row["inline_send_bytes"], row["inline_receive_bytes"], row["path_mtu"]), (4096, 4096, 4096))
    expect(row["calls_in_flight"] <= 8, f"{row['calls_in_flight']} calls in flight of a window of 8")
    expect_equal("last error", row["last_error"], "")
    time.sleep(0.3)
    later = box.ctl_json(gateway, "connections")["connections"][0]
    expect_equal("the connection", later["id"], row["id"])
    expect(later["rpcs"] > row["rpcs"], f"no calls between two looks: {row['rpcs']}, {later['rpcs']}")
    text = box.ctl(gateway, "connections").splitlines()
    expect_equal("lines of the table", len(text), 2)
    expect(re.search(r"10\.9\.0\.2:\d+ +established", text[1]) is not None, text[1])
    load.result()
    expect_equal("after the load", box.ctl(gateway, "connections").strip(), "no connections")
    gateway.terminate()


def stats_agree(box: Box) -> None:
    gateway, load = _under_load(box)
    report = load.result()
    stats = box.ctl_json(gateway, "stats")["stats"]
    calls = stats['causeway_backend_calls_total{backend="bench"}']
    _expect_covers(calls, report["calls"], "calls")
    some = box.ctl_json(gateway, "stats", "causeway_backend_calls")["stats"]
    expect_equal("stats with a prefix", some, {'causeway_backend_calls_total{backend="bench"}': calls})
    text = box.ctl(gateway, "stats", "causeway_backend_calls").split()
    expect_equal("stats as text", (text[0], float(text[1])), ('causeway_backend_calls_total{backend="bench"}', calls))
    metrics = gateway.metrics()
    for name in ("causeway_backend_calls_total", "causeway_rpcrdma_messages_total", "causeway_connections_total"):
        both = sum(value for key, value in stats.items() if key.split("{")[0] == name)
        expect_equal(f"{name} of causewayctl and of /metrics", both, metrics.total(name))
    gateway.terminate()


class DpdkTelemetry:
    """A client of DPDK's telemetry socket, version 2, as telegraf's dpdk plugin is one: a command in a packet, an answer in one, which is
    a JSON object under the command's name."""

    def __init__(self, box: Box, gateway: Gateway) -> None:
        found = list(box.directory.glob("dpdk/*/dpdk_telemetry.v2"))
        expect_equal("telemetry sockets", len(found), 1)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(10)
        self._socket.connect(str(found[0]))
        hello = json.loads(self._socket.recv(1024))
        expect_equal("who answers", hello["pid"], gateway.pid)
        self._answer_bytes_max = hello["max_output_len"]

    def ask(self, command: str) -> Any:
        self._socket.sendall(command.encode())
        answer = json.loads(self._socket.recv(self._answer_bytes_max))
        expect_equal("keys of the answer", list(answer), [command.split(",")[0]])
        return answer[command.split(",")[0]]

    def close(self) -> None:
        self._socket.close()


def dpdk_telemetry_agrees(box: Box) -> None:
    """Flat numbers, as telegraf wants them, and the same as those of /metrics."""
    gateway = box.gateway(
        metrics_extra="dpdk_telemetry = true", extra='[[client]]\nname = "all"\nprefixes = ["0.0.0.0/0"]\nconnections_max = 9\n'
    )
    gateway.start_ready()
    box.load(connections=2, seconds=1).result()
    metrics = gateway.metrics()
    client = DpdkTelemetry(box, gateway)
    commands = [
        f"/causeway/{name}"
        for name in ("backends", "clients", "connections", "info", "lcores", "pools", "ports", "routes", "rpcs", "stats")
    ]
    expect_equal("commands", [name for name in client.ask("/") if name.startswith("/causeway")], commands)
    for command in (*commands, "/causeway/stats,roce", "/causeway/ports,0", "/causeway/backends,bench"):
        answer = client.ask(command)
        expect(len(answer) > (0 if command.endswith("routes") else 2), f"{command}: {answer}")
        expect(
            all(
                re.fullmatch(r"\w+", name) and isinstance(value, int)
                for name, value in answer.items()
                if name not in ("version", "instance")
            ),
            f"{command}: not flat numbers: {answer}",
        )
    # With the load the other end of the link has gone.
    expect_equal("info", [client.ask("/causeway/info")[name] for name in ("ready", "draining")], [0, 0])
    expect_equal("ready in the metrics", metrics.total("causeway_ready"), 0)
    expect_equal(
        "calls", client.ask("/causeway/backends,bench")["backend_calls_total"], metrics.total("causeway_backend_calls_total")
    )
    expect_equal("connections", client.ask("/causeway/connections")["connections_total_established"], 2)
    expect_equal(
        "packets",
        client.ask("/causeway/ports")["roce_packets_total_0_rx"],
        metrics.total("causeway_roce_packets_total", port="0", direction="rx"),
    )
    expect_equal(
        "sums", client.ask("/causeway/stats")["rpcrdma_messages_total"], metrics.total("causeway_rpcrdma_messages_total")
    )
    expect_equal(
        "calls of the listener",
        client.ask("/causeway/routes,bench"),
        {"route_calls_total_other_bench": metrics.total("causeway_backend_calls_total")},
    )
    expect_equal("limit of the section", client.ask("/causeway/clients,all")["client_connections_max"], 9)
    expect_equal("of a port that is not there", client.ask("/causeway/ports,7"), {})
    client.close()
    gateway.terminate()


def nobody_there(box: Box) -> None:
    done = box.run(box.causewayctl, "--socket", box.directory / "none.sock", "status")
    expect_equal("exit status", done.returncode, 1)
    expect("none.sock" in done.stderr and "Is causewayd running?" in done.stderr, done.stderr)
    expect_equal("exit status without a command", box.run(box.causewayctl).returncode, 2)


def metrics_are_clean(box: Box) -> None:
    if shutil.which("promtool") is None:
        raise Skip("there is no promtool (package prometheus)")
    gateway, load = _under_load(box)
    gateway.metrics().lint()
    load.result()
    gateway.metrics().lint()
    gateway.terminate()


# The parser of Prometheus' own Python client takes nothing that OpenMetrics forbids. It is Debian's, and so is its interpreter.
STRICT_PARSER = """
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed
for family in parsed(sys.stdin.read()):
    for sample in family.samples:
        print(sample.name)
"""


def openmetrics_are_clean(box: Box) -> None:
    python = ["/usr/bin/python3", "-c", STRICT_PARSER]
    if subprocess.run([*python], input="# EOF\n", capture_output=True, text=True, timeout=20, check=False).returncode != 0:
        raise Skip("there is no strict parser (package python3-prometheus-client)")
    gateway, load = _under_load(box)
    fields = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "Accept-Encoding": "gzip"}
    request = urllib.request.Request(f"http://{gateway.metrics_address}/metrics", headers=fields)
    with urllib.request.urlopen(request, timeout=15) as response:
        kind, encoding = response.headers["Content-Type"], response.headers["Content-Encoding"]
        packed = response.read()
    expect_equal("form", (kind, encoding), ("application/openmetrics-text; version=1.0.0; charset=utf-8", "gzip"))
    text = gzip.decompress(packed).decode()
    expect(len(packed) < len(text) / 6, f"{len(text)} bytes became {len(packed)}")
    done = subprocess.run([*python], input=text, capture_output=True, text=True, timeout=30, check=False)
    expect_equal(f"exit status of the parser, which said {done.stderr[-500:]}", done.returncode, 0)
    # The same series as in Prometheus' own form.
    known = {line.partition("{")[0].partition(" ")[0] for line in gateway.metrics().text.splitlines() if not line.startswith("#")}
    expect_equal("names of one form only", known ^ set(done.stdout.split()), set())
    load.result()
    gateway.terminate()


def _make_certificate(folder: Path, name: str) -> None:
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
        ]
        + ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "metrics.key"), "-out", str(folder / "metrics.crt")],
        capture_output=True,
        timeout=30,
        check=True,
    )


def _web_refusals(box: Box, gateway: Gateway) -> dict[str, float]:
    """By causewayctl, which needs no password: how many were refused for which reason, without those of which there are none."""
    stats = box.ctl_json(gateway, "stats", "causeway_web_refused_total")["stats"]
    expect(len(stats) >= 12, f"reasons that are exported: {sorted(stats)}")
    return {name.split('"')[1]: value for name, value in stats.items() if value > 0}


def _expect_refusals_count(box: Box, gateway: Gateway, context: ssl.SSLContext) -> None:
    """One client for each reason that TLS and passwords give; `context` trusts the gateway."""
    url = f"https://{gateway.metrics_address}/metrics"
    guess = urllib.request.Request(url, headers={"Authorization": "Basic bWU6Z3Vlc3M="})  # me:guess
    plain = url.replace("https", "http")
    for request, status in ((url, 401), (guess, 401), (plain, 400)):
        try:
            with urllib.request.urlopen(request, timeout=15, context=None if request == plain else context) as response:
                got = response.status
        except urllib.error.HTTPError as error:
            got = error.code
        expect_equal("status", got, status)
    try:
        urllib.request.urlopen(url, timeout=15, context=ssl.create_default_context())
        expect(False, "a client that trusts nobody got an answer")
    except urllib.error.URLError as error:
        expect("certificate verify failed" in str(error), str(error))
    host, _, port = gateway.metrics_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as silent:
        expect_equal("what a client hears that never begins the handshake", silent.recv(1), b"")
    want = {"no_password": 1, "wrong_password": 1, "plain_http": 1, "tls": 1, "handshake_timeout": 1}
    wait_until(lambda: _web_refusals(box, gateway) == want, 10, f"refusals are {want}: {_web_refusals(box, gateway)}")


def behind_password(box: Box) -> None:
    """[metrics] web_config: Prometheus itself scrapes by TLS with a password; nobody else does, and is counted for it; a renewed
    certificate is taken."""
    for tool, package in (("htpasswd", "apache2-utils"), ("openssl", "openssl")):
        if shutil.which(tool) is None:
            raise Skip(f"there is no {tool} (package {package})")
    folder = Path(box.directory)
    _make_certificate(folder, "first")
    user = subprocess.run(
        ["htpasswd", "-nbBC", "5", "prometheus", "secret"], capture_output=True, text=True, timeout=30, check=True
    )
    name, _, bcrypt = user.stdout.strip().partition(":")
    web = "tls_server_config:\n  cert_file: metrics.crt\n  key_file: metrics.key\n" f"basic_auth_users:\n  {name}: {bcrypt}\n"
    (folder / "web.yml").write_text(web)
    gateway = box.gateway(metrics_extra=f'web_config = "{folder}/web.yml"')
    gateway.start_ready()

    login = {"username": name, "password": "secret"}
    prometheus = start_prometheus(
        box, [gateway.metrics_address], scheme="https", tls_config={"ca_file": str(folder / "metrics.crt")}, basic_auth=login
    )
    prometheus.wait_for(lambda: bool(prometheus.samples("causeway_build_info")), 30, "series of the gateway")
    prometheus.stop()

    expect_equal("refusals of one who may ask", _web_refusals(box, gateway), {})
    trusting = ssl.create_default_context(cafile=str(folder / "metrics.crt"))
    _expect_refusals_count(box, gateway, trusting)
    for path, status in (("metrics", 401), ("", 401), ("healthz", 200)):
        try:
            with urllib.request.urlopen(f"https://{gateway.metrics_address}/{path}", timeout=15, context=trusting) as response:
                got = response.status
        except urllib.error.HTTPError as error:
            got = error.code
        expect_equal(f"status of /{path} without a password", got, status)

    host, _, port = gateway.metrics_address.rpartition(":")
    before = ssl.get_server_certificate((host, int(port)))
    _make_certificate(folder, "second")
    end = time.monotonic() + 15
    while (after := ssl.get_server_certificate((host, int(port)))) == before and time.monotonic() < end:
        time.sleep(0.3)
    expect_equal("certificate", after.split(), (folder / "metrics.crt").read_text().split())
    # A mistake is said, and changes nothing.
    (folder / "web.yml").write_text(web + "basic_auth_user: {}\n")
    time.sleep(1.1)
    expect_equal("certificate after a mistake", ssl.get_server_certificate((host, int(port))), after)
    gateway.wait_for_line(r"web.yml:6: the file has no key basic_auth_user here.*stays in force", 10)
    gateway.terminate()


def metrics_agree(box: Box) -> None:
    gateway, load = _under_load(box, connections=2, window=4)
    during = gateway.metrics()
    expect_equal("connections", during.total("causeway_connections"), 2)
    expect_equal("credits granted", during.total("causeway_rpcrdma_credits_granted"), 2 * CREDITS)
    expect(during.total("causeway_rpcrdma_credits_in_use") <= 8, "more credits in use than calls in flight")
    expect_equal(
        "ready, link, backend",
        (during.total("causeway_ready"), during.total("causeway_port_up"), during.total("causeway_backend_up")),
        (1, 1, 1),
    )
    report = load.result()
    after = gateway.metrics()
    expect_equal("connections afterwards", after.total("causeway_connections"), 0)
    expect_equal("credits afterwards", after.total("causeway_rpcrdma_credits_granted"), 0)
    expect_equal("established", after.total("causeway_connections_total", result="established"), 2)
    expect_equal("closed by the peer", after.total("causeway_connections_closed_total", reason="closed_by_peer"), 2)
    calls = after.total("causeway_backend_calls_total")
    _expect_covers(calls, report["calls"], "calls")
    expect_equal("measured calls", after.total("causeway_rpc_duration_seconds_count", program="bench", procedure="echo"), calls)
    expect_equal(
        "messages",
        (
            after.total("causeway_rpcrdma_messages_total", direction="rx", procedure="rdma_msg"),
            after.total("causeway_rpcrdma_messages_total", direction="tx", procedure="rdma_msg"),
        ),
        (calls, calls),
    )
    expect_equal("chunks of small calls", after.total("causeway_rpcrdma_chunks_total"), 0)
    expect_equal("calls with the backend", _stage(after, "backend"), calls)
    expect(
        calls // 16 - 1 <= _stage(after, "reply_ack") <= calls // 16 + 1, f"{_stage(after, 'reply_ack')} acknowledgements timed"
    )
    expect_equal("stages of calls with chunks", (_stage(after, "rdma_read"), _stage(after, "rdma_write")), (0, 0))
    expect(_stage(after, "rx") <= calls, f"{_stage(after, 'rx')} calls had to wait, of {calls}")
    _expect_no_errors(after)
    gateway.terminate()


def chunk_bytes_agree(operation: str, used: str, box: Box) -> None:
    """Of an odd size, so that XDR padding would show."""
    size = 100_001
    gateway, load = _under_load(box, operation=operation, size=size, window=4)
    report = load.result()
    metrics = gateway.metrics()
    calls = metrics.total("causeway_backend_calls_total")
    _expect_covers(calls, report["calls"], "calls")
    expect_equal("bytes that the load reports", report["data_bytes"], report["calls"] * size)
    for chunks in ("read", "write", "reply"):
        share = 1 if chunks == used else 0
        expect_equal(f"{chunks} chunks", metrics.total("causeway_rpcrdma_chunks_total", list=chunks), share * calls)
        expect_equal(
            f"bytes by {chunks} chunk", metrics.total("causeway_rpcrdma_chunk_bytes_total", list=chunks), share * calls * size
        )
    # The calls of the measurement are all acknowledged; what the end of the load cut off may not be.
    stages = {"rdma_read": _stage(metrics, "rdma_read"), "rdma_write": _stage(metrics, "rdma_write")}
    other = stages.pop("rdma_write" if used == "read" else "rdma_read")
    expect_equal("calls of the stage without chunks", other, 0)
    expect(
        report["calls"] <= stages.popitem()[1] <= calls,
        f"calls of a stage: {metrics.by_label('causeway_rpc_stage_duration_seconds_count', 'stage')}",
    )
    _expect_no_errors(metrics)
    gateway.terminate()


def _stage(metrics: Metrics, stage: str) -> float:
    return metrics.total("causeway_rpc_stage_duration_seconds_count", stage=stage)


def _expect_covers(counted: float, reported: float, what: str) -> None:
    """The gateway counts from the first call on, the load what it measured: a little less."""
    expect(reported > 0, f"the load reports no {what}")
    expect(
        reported <= counted <= 2 * reported + 10_000,
        f"{what}: the gateway counted {counted:.0f}, the load reports {reported:.0f}",
    )


def _expect_no_errors(metrics: Metrics) -> None:
    for name in (
        "causeway_rpcrdma_errors_total",
        "causeway_rpcrdma_malformed_headers_total",
        "causeway_rpcrdma_credit_violations_total",
        "causeway_rpcrdma_no_buffer_total",
        "causeway_rpcrdma_call_timeouts_total",
        "causeway_roce_retries_exhausted_total",
        "causeway_connections_refused_total",
        "causeway_cm_rejects_total",
        "causeway_port_rx_errors_total",
        "causeway_roce_queue_pairs_failed_total",
    ):
        expect_equal(name, metrics.total(name), 0)
    discards = metrics.by_label("causeway_roce_discards_total", "reason")
    defects = {reason: count for reason, count in discards.items() if count and reason not in REPETITION}
    expect_equal("discards", defects, {})


def _watch(box: Box, gateway: Gateway, script: str, *words: object) -> Program:
    """bpftrace with one of our scripts at a gateway, attached."""
    path = ROOT / "deploy/bpftrace" / f"{script}.bt"
    # Its output goes to a file: it would keep it back otherwise.
    argv = ["bpftrace", "-B", "line", "-p", gateway.pid, path, *words]
    watcher = Program(script, [str(word) for word in argv], box.directory / f"{script}.log", box.env)
    box.programs.append(watcher)
    watcher.start()
    watcher.wait_for_line(r"^Attaching", 30)
    return watcher


def probes_tell(box: Box) -> None:
    """bpftrace with each script sees what happens: connections that come and go, and every call with its time."""
    if os.geteuid() != 0:
        raise Skip("takes root")
    if not Path("/sys/bus/event_source/devices/uprobe").exists():
        raise Skip("this kernel has no uprobes")
    gateway = box.gateway()
    gateway.start_ready()
    watchers = [
        _watch(box, gateway, "transport_events"),
        _watch(box, gateway, "event_counts"),
        _watch(box, gateway, "slow_calls", 1),
    ]
    box.load(operation="sink", size=SINK_BYTES, connections=2, window=1).result()
    answered = gateway.metrics().total("causeway_rpc_duration_seconds_count", program="bench", procedure="sink")
    for watcher in watchers:
        watcher.signal(signal.SIGINT)
        watcher.finish(30)
    events, counts, calls = (watcher.output() for watcher in watchers)
    for word in ("connected", "destroyed"):
        seen = len(re.findall(rf"RoCE\s+0x[0-9a-f]+\s+{word}\b", events))
        expect_equal(f"events {word!r}", seen, 2)
        expect(re.search(rf"@events\[RoCE, {word}, .*\]: 2$", counts, re.MULTILINE) is not None, f"counts: {counts}")
    slow = re.findall(r"^\S+ +10\.9\.0\.2 +bench +sink +(\d+)$", calls, re.MULTILINE)
    expect(len(slow) > 0 and all(int(us) >= 1 for us in slow), f"calls: {calls[:2000]}")
    histogram = re.search(r"^@microseconds\[bench, sink\]:.*\n((?:^[\[(].*\n?)+)", calls, re.MULTILINE)
    expect(histogram is not None, f"no histogram: {calls[-2000:]}")
    told = sum(int(number) for number in re.findall(r"[\])]\s+(\d+) \|", histogram[1]))
    expect_equal("calls in the histogram", told, answered)
    gateway.terminate()


def addresses_agree(box: Box) -> None:
    gateway = box.gateway(metrics_extra="addresses_max = 2")
    gateway.start_ready()
    expect_equal("series without a client", "causeway_address_calls_total{" in gateway.metrics().text, False)
    # One after the other: each has the link to itself.
    reports = {}
    for host, window in ((2, 1), (3, 4), (4, 8)):
        load = box.load(host=host, operation="sink", size=SINK_BYTES, connections=2, window=window, seconds=1)
        load.wait_connected()
        address = f"10.9.0.{host}"
        expect_equal(address, gateway.metrics().total("causeway_address_connections", address=address), 2)
        reports[address] = load.result()
    after = gateway.metrics()
    calls = {address: after.total("causeway_address_calls_total", address=address) for address in reports}
    told = [address for address, count in calls.items() if count]
    busiest = sorted(reports, key=lambda address: reports[address]["calls"])[1:]
    expect_equal("addresses", sorted(told), sorted(busiest))
    expect_equal("the others", after.total("causeway_addresses_untold"), 1)
    for address in told:
        _expect_covers(calls[address], reports[address]["calls"], f"calls of {address}")
        expect_equal("errors", after.total("causeway_address_errors_total", address=address), 0)
        seconds = after.total("causeway_address_call_seconds_total", address=address)
        expect(0 < seconds < 120, f"{calls[address]:.0f} calls of {address} took {seconds} s together")
        for direction, each in (("rx", SINK_BYTES), ("tx", 24)):
            moved = after.total("causeway_address_bytes_total", address=address, direction=direction)
            expect(moved >= each * calls[address], f"{moved} bytes {direction} of {address}")
    after.lint()
    gateway.terminate()


CASES = [
    ("causewayctl status agrees with the load", status_agrees),
    ("causewayctl connections agrees with the load", connections_agree),
    ("causewayctl stats agrees with the load and with /metrics", stats_agree),
    ("DPDK's telemetry socket agrees with /metrics", dpdk_telemetry_agrees),
    ("causewayctl without a gateway says so", nobody_there),
    ("bpftrace's scripts see events and calls by the USDT probes", probes_tell),
    ("promtool finds nothing wrong with /metrics", metrics_are_clean),
    ("a strict parser finds nothing wrong with /metrics as OpenMetrics, compressed", openmetrics_are_clean),
    ("Prometheus scrapes metrics behind TLS and a password, and nobody else does", behind_password),
    ("metrics agree with the load", metrics_agree),
    ("series of client addresses are as many as asked for, the busiest first", addresses_agree),
    ("source: bytes by Write chunk are those the load reports", lambda box: chunk_bytes_agree("source", "write", box)),
    ("sink: bytes by Read chunk are those the load reports", lambda box: chunk_bytes_agree("sink", "read", box)),
]
