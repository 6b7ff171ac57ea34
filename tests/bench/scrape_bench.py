#!/usr/bin/env python3
"""What watching costs: a scrape of /metrics with few and with 10,000 connections, what scrapes cost the calls beside them, and what the
recorder costs a gateway that does nothing.

    tests/bench/scrape_bench.py BUILD_DIR [--full] [--json FILE]

One poll core, connections of causeway-load over memif. Each scrape comes when the answer of the last one is no longer kept, so all are
made anew. `ms` is from connect() to the last byte, as Prometheus waits; the machine's other work is in it. `cpu_us_per_call` is busy time
of the poll core by calls answered, both from /metrics, in slices of a closed loop with scrapes and without, taking turns.
`recorder` is CPU time of the recorder's thread, by the kernel, of which a status every ten seconds is a part.
"""

import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ops"))

from harness import Box, Gateway, LabError, Load  # noqa: E402
from link_lab import command_line, finish  # noqa: E402

CACHE_S = 0.26  # how long an answer is kept, and a little
MANY = 10_000
SMOKE_MANY = 200
PER_SECOND = 400
RECORDER_S = 10  # it asks for the status once in so long
BUFFERS_PER_CONNECTION = 6
Row = dict[str, Any]


def scrape(gateway: Gateway) -> tuple[float, int]:
    """Milliseconds and bytes."""
    time.sleep(CACHE_S)
    begun = time.perf_counter()
    with urllib.request.urlopen(f"http://{gateway.metrics_address}/metrics", timeout=30) as response:
        size = len(response.read())
    return (time.perf_counter() - begun) * 1e3, size


def connected(box: Box, many: int) -> tuple[Gateway, Load]:
    limits = {
        "connections_max": many,
        "half_open_max": min(many, 4096),
        "half_open_max_per_prefix": min(many, 4096),
        "cm_requests_per_second": 1_000_000,
        "cm_requests_per_second_per_prefix": 1_000_000,
    }
    gateway = box.gateway(
        f"gateway{many}",
        link=f"link{many}",
        credits="1",
        listener="reverse_credits = 0",
        extra="[limits]\n" + "".join(f"{key} = {value}\n" for key, value in limits.items()),
    )
    config = box.directory / f"gateway{many}.toml"
    buffers = max(32768, many * BUFFERS_PER_CONNECTION)
    config.write_text(
        config.read_text().replace("memory_mb = 512", f"memory_mb = {512 + buffers // 100}\nrx_buffers = {buffers}")
    )
    gateway.start_ready()
    # Slowly, since a client that asks for all at once waits for most of them too long.
    words = ["--memory-mb", 1024, "--reconnect", "--connections", f"16, {max(1, many // PER_SECOND)}s:{many}"]
    load = box.load(*words, name=f"load{many}", link=f"link{many}", operation="null", connections=None, window=1, seconds=600)
    deadline = time.monotonic() + 3 * many / PER_SECOND + 30
    while gateway.metrics().total("causeway_connections") != many:
        if time.monotonic() > deadline:
            raise LabError(f"{gateway.metrics().total('causeway_connections'):.0f} of {many} connections")
        time.sleep(0.5)
    return gateway, load


def idle(load: Load) -> None:
    """Its connections stay; it does nothing."""
    load.signal(19)


def scrapes_of(gateway: Gateway, count: int, name: str, beside: Optional[Row]) -> list[Row]:
    found = [scrape(gateway) for _ in range(count)]
    times = sorted(ms for ms, _ in found)
    size = found[-1][1]
    row: Row = {
        "name": f"scrape/{name}",
        "value": statistics.median(times),
        "unit": "ms",
        "good": True,
        "bytes": size,
        "spread": [times[0], times[-1]],
    }
    if beside is not None:
        row.update(baseline=beside["value"], beside="a scrape without connections", ratio=beside["value"] / row["value"])
    return [row]


def recorder_ns(gateway: Gateway) -> int:
    """CPU time that the thread has had."""
    for task in Path(f"/proc/{gateway.pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "cw-recorder":
            return int((task / "schedstat").read_text().split()[0])
    raise LabError("there is no thread cw-recorder")


def recorder_of(gateway: Gateway, looks: int, name: str) -> Row:
    spans = []
    for _ in range(looks):
        before, begun = recorder_ns(gateway), time.monotonic()
        time.sleep(RECORDER_S)
        spans.append((recorder_ns(gateway) - before) / 1e3 / (time.monotonic() - begun))
    return {
        "name": f"recorder/{name}",
        "value": statistics.median(spans),
        "unit": "us per second",
        "good": True,
        "spread": [min(spans), max(spans)],
    }


def busy_and_calls(gateway: Gateway) -> tuple[float, float]:
    metrics = gateway.metrics()
    return metrics.total("causeway_lcore_busy_seconds_total"), metrics.total("causeway_backend_calls_total")


def slice_us(gateway: Gateway, seconds: float, scraping: bool) -> float:
    """Busy microseconds of the poll core per call."""
    time.sleep(CACHE_S)
    busy, calls = busy_and_calls(gateway)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if scraping:
            scrape(gateway)
        else:
            time.sleep(0.05)
    time.sleep(CACHE_S)
    busy_then, calls_then = busy_and_calls(gateway)
    return (busy_then - busy) / (calls_then - calls) * 1e6


def cost_of_calls(box: Box, slices: int, seconds: float) -> Row:
    gateway = box.gateway("busy", link="busy")
    gateway.start_ready()
    load = box.load(name="busy-load", link="busy", connections=8, window=8, seconds=600)
    load.wait_connected()
    slice_us(gateway, seconds, False)
    ratios, plain = [], []
    for _ in range(slices):
        plain.append(slice_us(gateway, seconds, False))
        ratios.append(slice_us(gateway, seconds, True) / plain[-1])
    load.stop()
    gateway.terminate()
    without = statistics.median(plain)
    return {
        "name": "scrape/cpu_us_per_call",
        "value": without * statistics.median(ratios),
        "unit": "us",
        "good": True,
        "baseline": without,
        "beside": "calls without scrapes",
        "ratio": 1 / statistics.median(ratios),
        "spread": [without * min(ratios), without * max(ratios)],
    }


def main() -> int:
    options = command_line(__doc__ or "", "10,000 connections, and figures that mean something")
    many = MANY if options.full else SMOKE_MANY
    count = 40 if options.full else 3
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="cw-scrape-") as directory:
        box = Box(options.build.resolve(), Path(directory))
        try:
            gateway = box.gateway("none", link="none")
            gateway.start_ready()
            rows += scrapes_of(gateway, count, "0_connections", None)
            rows.append(recorder_of(gateway, 3 if options.full else 1, "0_connections"))
            gateway.terminate()
            gateway, load = connected(box, many)
            rows += scrapes_of(gateway, count, f"{many}_busy_connections", rows[0])
            idle(load)
            rows += scrapes_of(gateway, count, f"{many}_connections", rows[0])
            rows.append(recorder_of(gateway, 3 if options.full else 1, f"{many}_connections"))
            load.signal(18)
            load.kill()
            gateway.kill()
            rows.append(cost_of_calls(box, 8 if options.full else 1, 2.0 if options.full else 0.5))
        except LabError as error:
            print(f"scrape_bench: {error}", file=sys.stderr)
            return 1
        finally:
            box.close()
    return finish(rows, options.json)


if __name__ == "__main__":
    sys.exit(main())
