"""Drills: whoever talks to the gateway's sockets without good manners: ten thousand scrapes, slow readers, garbage; clients that connect
and disconnect all the time; and a soak that ends where it began."""

import concurrent.futures
import os
import random
import socket
import time
from dataclasses import replace
from typing import Optional

import pktgen_cases
from drill import PORT, BackendInTrouble, Drill, Resources, expect_back_to, expect_intact, gateway_before
from harness import Box, Gateway, expect, expect_equal
from lab.daemon import wait_until

SCRAPES = 10_000
SCRAPERS = 8
# Length of the soak in seconds; a longer one is an operator's, not a test suite's: tests/ops/run.sh build --soak MINUTES
SOAK = "CAUSEWAY_OPS_SOAK_S"
SOAK_S = 8
SEED = 4791


def _tcp(gateway: Gateway, timeout: float = 10) -> socket.socket:
    host, port = gateway.metrics_address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=timeout)


def _admin(gateway: Gateway, timeout: float = 10) -> socket.socket:
    asker = socket.socket(socket.AF_UNIX)
    asker.settimeout(timeout)
    asker.connect(gateway.admin)
    return asker


def _scrape_all(gateway: Gateway, count: int) -> int:
    """Bytes of `count` scrapes, all of them whole."""
    total = 0
    for _ in range(count):
        with _tcp(gateway) as asker:
            asker.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b"".join(iter(lambda: asker.recv(1 << 20), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        expect(head.startswith(b"HTTP/1.1 200") and len(body) == length, f"{head!r}, {len(body)} bytes")
        total += len(answer)
    return total


def ten_thousand_scrapes(box: Box) -> None:
    gateway = box.gateway()
    gateway.start_ready()
    baseline = Resources.of(gateway)
    # What the first link, load and answers take stays: tables are touched then, a huge page each where all memory has them.
    expect_intact(box.load(connections=4, window=4, seconds=1).result())
    with concurrent.futures.ThreadPoolExecutor(SCRAPERS) as scrapers:
        list(scrapers.map(lambda _: _scrape_all(gateway, 10), range(SCRAPERS)))
    baseline = replace(baseline, resident_mb=Resources.of(gateway).resident_mb)
    load = box.load("--reconnect", connections=4, window=4, seconds=3)
    load.wait_connected()
    with concurrent.futures.ThreadPoolExecutor(SCRAPERS) as scrapers:
        received = sum(scrapers.map(lambda _: _scrape_all(gateway, SCRAPES // SCRAPERS), range(SCRAPERS)))
    expect(received > SCRAPES * 10_000, f"{received} bytes")
    report = load.result()
    expect_intact(report)
    expect_equal("connections lost", report["lost"], 0)
    expect_equal("cores that were late", gateway.metrics().total("causeway_snapshot_timeouts_total"), 0)
    expect_back_to(baseline, gateway, slack_mb=8)
    gateway.terminate()


def slow_readers(box: Box) -> None:
    """More of them than the metrics address and the admin socket take: some trickle a request, some do not read their answer. Prometheus
    and causewayctl are served all the while, and all of the readers are gone in the end."""
    gateway = box.gateway()
    gateway.start_ready()
    baseline = Resources.of(gateway)
    # What the first link, load and answer take stays: it is not the readers'.
    expect_intact(box.load(connections=2, window=4, seconds=1).result())
    gateway.metrics()
    baseline = replace(baseline, resident_mb=Resources.of(gateway).resident_mb)
    load = box.load(connections=2, window=4, seconds=9)  # its end of the link is there as long as the readers are
    load.wait_connected()
    readers = [_tcp(gateway) for _ in range(48)]
    for index, reader in enumerate(readers):
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(b"GET /metr" if index % 2 else b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    askers = [_admin(gateway) for _ in range(4)]
    for asker in askers:
        asker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asker.sendall(b'{"command": "stats"}\n' * 50)
    end = time.monotonic() + 6  # longer than a client of the metrics address may take
    turns = 0
    while time.monotonic() < end:
        for index, reader in enumerate(readers):
            try:
                if index % 2:
                    reader.sendall(b"i")
            except OSError:
                pass  # it is gone
        expect(gateway.metrics().total("causeway_ready") == 1, "not ready")
        expect("ready" in box.ctl(gateway, "status"), "causewayctl gets no answer")
        turns += 1
        time.sleep(0.2)
    expect(turns > 5, f"{turns} turns")
    for each in askers:
        each.close()
    expect_intact(load.result())
    # Its ends of their connections are closed, whether they have noticed or not. The answers of all were there at once, and what
    # the allocator keeps of them depends on what lies behind them, by whole huge pages where all memory has them.
    expect_back_to(baseline, gateway, slack_mb=16)
    for each in readers:
        each.close()
    gateway.terminate()


def garbage_everywhere(box: Box) -> None:
    """Random bytes at the metrics address and the admin socket, and at UDP 4791 bad frames of every kind without end, by a second port;
    meanwhile the clients of the first are served."""
    frames, _ = pktgen_cases.generate(box, "malformed", *pktgen_cases.both_addresses())
    second = f'[[port]]\ndevice = "net_pcap0,rx_pcap={frames},infinite_rx=1"\nmtu = 4500\naddresses = ["10.9.1.1/24"]\n'
    gateway = box.gateway(port_extra=second)
    gateway.start_ready()
    baseline = Resources.of(gateway)
    drill = Drill(box, gateway)
    load = box.load("--reconnect", connections=2, window=4, seconds=4)
    load.wait_connected()
    dice = random.Random(SEED)
    for turn in range(200):
        for connect in (_tcp, _admin):
            with connect(gateway) as asker:
                try:
                    asker.sendall(dice.randbytes(dice.choice((1, 17, 1000, 20_000))))
                    if turn % 3 == 0:
                        asker.shutdown(socket.SHUT_WR)
                        asker.recv(4096)
                except OSError:
                    pass  # it may close before it has all of it
    expect("ready" in box.ctl(gateway, "status"), "causewayctl gets no answer")
    expect_intact(load.result())
    drill.expect("", "IcrcErrors", moved=(("causeway_roce_discards_total", {"reason": "icrc"}, 100),))
    drill.expect("", "UnknownQpFlood", lasting=True, moved=(("causeway_roce_discards_total", {"reason": "unknown_qp"}, 100),))
    expect_back_to(Resources(**{**vars(baseline), "buffers": {}}), gateway, slack_mb=32)
    gateway.terminate()


def churn(box: Box) -> None:
    """Hundreds of connections to a TCP backend made and ended a second, under calls: nothing of them is left."""
    backend = BackendInTrouble(box)
    gateway = gateway_before(box, backend.address)
    expect_intact(box.load("--port", PORT, "--churn", 100, name="warm", connections=16, window=2, seconds=2).result())
    _wait_forgotten(gateway)
    baseline = Resources.of(gateway)
    drill = Drill(box, gateway)
    load = box.load("--port", PORT, "--churn", 200, operation="source", size=30_000, connections=16, window=2, seconds=4)
    report = load.result()
    expect_intact(report)
    expect_equal("lost, refused", (report["lost"], report["refused"]), (0, 0))
    expect(report["closed"] > 200, f"{report['closed']} connections were closed")
    drill.expect(
        r"info connection from 10\.9\.0\.2 .* ended: closed_by_peer",
        "ConnectionChurn",
        lasting=True,
        moved=(("causeway_connections_total", {"result": "established"}, report["closed"]),),
    )
    _wait_forgotten(gateway)
    expect_back_to(baseline, gateway, slack_mb=8)
    backend.close()
    gateway.terminate()


def _wait_forgotten(gateway: Gateway) -> None:
    """The connection manager remembers those that ended for a while."""
    wait_until(lambda: gateway.metrics().total("causeway_connections_timewait") == 0, 30, "ended connections are forgotten")


def _round(box: Box, seconds: int, number: int) -> None:
    """Calls of all kinds on a bad link, connections that come and go, both kinds of backends."""
    mix = "null:4,echo/512:4,echo/40k:1,source/200k:1,sink/200k:1"
    words: list[object] = ["--mix", mix, "--loss", 2, "--duplicate", 5, "--reorder", 5, "--corrupt", 2, "--churn", 20]
    for port in (20049, PORT):
        load = box.load(
            *words, "--port", port, name=f"round{number}-{port}", operation=None, connections=6, window=4, seconds=seconds
        )
        report = load.result(timeout=seconds + 60)
        expect_intact(report)


def soak(box: Box) -> None:
    """Rounds of calls of every kind, churn and faults, for as long as asked for; memory, descriptors and pools are those of the beginning
    after each."""
    seconds = int(os.environ.get(SOAK, SOAK_S))
    backend = BackendInTrouble(box)
    gateway = gateway_before(box, backend.address)
    _round(box, 2, 0)
    _wait_forgotten(gateway)
    baseline = Resources.of(gateway)
    start = time.monotonic()
    number = 0
    now: Optional[Resources] = None
    while time.monotonic() < start + seconds:
        number += 1
        _round(box, min(30, max(2, seconds // 4)), number)
        _wait_forgotten(gateway)
        now = expect_back_to(baseline, gateway, slack_mb=16)
        if SOAK in os.environ:
            calls = gateway.metrics().total("causeway_backend_calls_total")
            print(
                f"   {time.monotonic() - start:6.0f} s: {calls:.0f} calls, {now.resident_mb:.1f} MiB of {baseline.resident_mb:.1f} at first,"
                f" {now.descriptors:.0f} descriptors of {baseline.descriptors:.0f}, buffers free {now.buffers}",
                flush=True,
            )
    expect(number > 0 and now is not None, "no round")
    for name in ("causeway_rpcrdma_errors_total", "causeway_rpcrdma_credit_violations_total", "causeway_snapshot_timeouts_total"):
        expect_equal(name, gateway.metrics().total(name), 0)
    backend.close()
    gateway.terminate()


CASES = [
    ("drill: ten thousand scrapes under load", ten_thousand_scrapes),
    ("drill: slow readers at every socket", slow_readers),
    ("drill: garbage at every socket", garbage_everywhere),
    ("drill: clients connect and disconnect all the time", churn),
    ("drill: a soak ends where it began", soak),
]
# No core may be late in them, and all of the CPUs is what they take.
ALONE = ["drill: ten thousand scrapes under load", "drill: a soak ends where it began"]
