#!/usr/bin/env python3
"""iWARP over loopback TCP, next to plain TCP between the same two CPUs.

    [ONLY=NAME[,NAME]...] tests/bench/iwarp_bench.py BUILD_DIR [--full] [--json FILE]

ONLY: not all of these, but echo64_w1, echo64_w32 ...

  echo64      RPC/s of the bench program, over iWARP and RPC-over-RDMA, beside tcp_peer on ONC RPC over TCP: the same calls, checked
              by their client, a CPU for each side, on which all four poll. `asleep`: all four sleep when idle, ours after having
              polled for 100 us, which tcp_peer does not; so the rates cannot be compared, and CPU time is all that is told
  read1m      GB/s of calls with 1 MiB of answer (RDMA Write), and write1m with 1 MiB of argument (RDMA Read), beside a TCP
              connection in the same direction on which one process writes 1 MiB at a time and the other reads it into the same
              place again and again
  ..._cpu     seconds of CPU, user and system, that a process takes: for each GiB (bulk), for each million of calls (asleep)
  ..._busy    of the gateway's, those of its poll core's turns that found work: without the polling before it sleeps, and without
              a ratio, since nobody takes TCP's waiting apart
  idle        bytes that the gateway's memory grows by for each connection that has made a call: VmRSS of 150 more connections,
              in pages of 4 KiB: a huge page that is touched counts whole

All with CRC and without (`_no_crc`). Everything that TCP does is the kernel's, on both sides of each ratio.

Where the CPUs are virtual, their host moves them, and a rate doubles or halves within seconds. So runs are short, and ours and
TCP's take turns. A ratio is that of a run to the mean of the two beside it; the figure is the median of these, and
`ratio_spread` has their quartiles. Even so, a rate is that of two processes and of how they wait for each other. What the
gateway itself costs stands in `gateway_cpu` and `gateway_busy`, beside the process that does TCP's part on the same CPU. The
bench program's own work is in both: it makes the bytes of an answer and takes a checksum of all, and TCP's stream neither.
"""

import ctypes
import json
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Optional

from link_lab import Daemon, Lab, LabError, Measured, Sample, gateway_config, row, run

PORT = 20049
BLOCK = 1 << 20
GIB = 1 << 30
MILLION = 1_000_000
IDLE_CONNECTIONS = 150
PAIRS = 9  # of runs of a second
ONLY = [name for name in os.environ.get("ONLY", "").split(",") if name]


def is_wanted(name: str) -> bool:
    return not ONLY or name in ONLY


class Small(NamedTuple):
    name: str
    window: int
    connections: int
    polls: bool = True


class Bulk(NamedTuple):
    name: str
    op: str
    gateway_writes: bool  # to TCP


SMALL = [
    Small("echo64_w1", 1, 1),
    Small("echo64_w32_asleep", 32, 1, polls=False),
    Small("echo64_w32", 32, 1),
    Small("echo64_w8_c8", 8, 8),
]
BULK = [Bulk("read1m", "source", True), Bulk("write1m", "sink", False)]


class Bench:
    def __init__(self, lab: Lab, seconds: int) -> None:
        self.lab = lab
        self.seconds = seconds
        self.peer = str(lab.build / "tests/bench/tcp_peer")

    def gateway(self, polls: bool) -> Daemon:
        """It asks for no CRC, so that its client decides."""
        config = self.lab.directory / "iwarp.toml"
        config.write_text(
            gateway_config(
                instance=f"bench-{os.getpid()}",
                poll_lcores=self.lab.gateway_cpu,
                dataplane=f'idle = "{"spin" if polls else "sleep"}"',
                listener=f'transport = "iwarp"\naddress = "127.0.0.1"\nport = {PORT}',
                admin=self.lab.directory / "admin.sock",
                metrics="off",
                extra="[limits]\nconnections_max = 200\n[iwarp]\ncrc = false",
            )
        )
        daemon = Daemon(
            "causewayd", [str(self.lab.build / "apps/causewayd"), "--config", str(config)], self.lab.directory / "causewayd.log"
        )
        daemon.start()
        daemon.wait_for_line("causewayd: ready", 30)
        return daemon

    def load_command(self, words: list[str], seconds: int, warmup: int) -> list[str]:
        program = str(self.lab.build / "apps/load/causeway-load")
        common = ["--transport", "iwarp", "--server", "127.0.0.1", "--port", str(PORT), "--lcore", str(self.lab.load_cpu)]
        common += ["--seconds", str(seconds), "--warmup", str(warmup), "--verify-every", "64"]
        return [program, *common, "--json", str(self.lab.directory / "load.json"), *words]

    def load(self, gateway: Daemon, words: list[str], crc: bool, unit: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """causeway-load's report, and what it and the gateway took for each `unit` calls. There is no warm-up: all that they do is
        counted on both sides, the client's start included."""
        command = self.load_command([*words, *([] if crc else ["--no-crc"])], self.seconds, 0)
        busy_before, _ = self.lab.gateway_work()
        before, client_before = cpu_of(gateway.pid), cpu_of_children()
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 + self.seconds, check=False)
        spent, client_spent = cpu_of(gateway.pid) - before, cpu_of_children() - client_before
        busy, _ = self.lab.gateway_work()
        if done.returncode != 0:
            raise LabError(
                f"causeway-load {' '.join(words)}: exit status {done.returncode}: {(done.stderr or done.stdout).strip()}"
            )
        report: dict[str, Any] = json.loads((self.lab.directory / "load.json").read_text())
        units = report["calls"] / unit
        cpu = {
            "gateway_cpu": spent / units,
            "gateway_busy": (busy - busy_before) / units,
            "client_cpu": client_spent / units,
            "wrong": report["wrong"],
        }
        return report, cpu

    # A server that polls may not be there while the other one is measured, so both have one for each run.

    def rpc(self, case: Small, crc: bool) -> Measured:
        words = ["--op", "echo", "--bytes", "64", "--window", str(case.window), "--connections", str(case.connections)]
        gateway = self.gateway(case.polls)
        try:
            report, cpu = self.load(gateway, [*words, *(["--spin"] if case.polls else [])], crc, MILLION)
        finally:
            gateway.stop()
        return report["calls_per_second"], {"p50_us": report["latency_us"]["p50"], **cpu}

    def plain_rpc(self, case: Small) -> Measured:
        polls = ["--spin"] if case.polls else []
        server = Daemon(
            "tcp_peer", [self.peer, "serve", "--cpu", str(self.lab.gateway_cpu), *polls], self.lab.directory / "server.log"
        )
        server.start()
        try:
            server.wait_for_line(r"^port \d+", 10)
            port = re.findall(r"port (\d+)", server.output())[-1]
            command = [self.peer, "load", "--port", port, "--cpu", str(self.lab.load_cpu), "--window", str(case.window)]
            command += ["--connections", str(case.connections), "--seconds", str(self.seconds), *polls]
            before, client_before = cpu_of(server.pid), cpu_of_children()
            done = subprocess.run(command, capture_output=True, text=True, timeout=60 + self.seconds, check=True)
            server_cpu, client_cpu = cpu_of(server.pid) - before, cpu_of_children() - client_before
        finally:
            server.stop()
        report = json.loads(done.stdout)
        # It does not count the calls of its first fifth of a second, so their share is added.
        units = report["calls"] * (self.seconds + 0.2) / self.seconds / MILLION
        return report["calls_per_second"], {
            "p50_us": report["p50_us"],
            "wrong": report["wrong"],
            "gateway_cpu": server_cpu / units,
            "client_cpu": client_cpu / units,
        }

    def bulk(self, gateway: Daemon, case: Bulk, crc: bool) -> Measured:
        words = ["--op", case.op, "--bytes", "1m", "--window", "8", "--connections", "1"]
        report, cpu = self.load(gateway, words, crc, GIB // BLOCK)
        return report["calls_per_second"] * BLOCK / 1e9, cpu

    def plain_stream(self, gateway_writes: bool) -> Measured:
        """One direction of a TCP connection. "gateway_cpu" is that of the process on the gateway's CPU."""
        writer_cpu, reader_cpu = self.lab.load_cpu, self.lab.gateway_cpu
        if gateway_writes:
            writer_cpu, reader_cpu = reader_cpu, writer_cpu
        with socket.create_server(("127.0.0.1", 0)) as listener:
            writes_before = cpu_of_children()
            writer = os.fork()
            if writer == 0:
                os.sched_setaffinity(0, {writer_cpu})
                write_for(listener.getsockname()[1], self.seconds)
                os._exit(0)
            own = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {reader_cpu})
            try:
                reads_before = time.process_time()
                count, seconds = read_all(listener)
                reads = time.process_time() - reads_before
            finally:
                os.sched_setaffinity(0, own)
                os.waitpid(writer, 0)
        writes = cpu_of_children() - writes_before
        near, far = (writes, reads) if gateway_writes else (reads, writes)
        return count / seconds / 1e9, {"gateway_cpu": near / count * GIB, "client_cpu": far / count * GIB}

    def idle(self) -> Measured:
        with without_huge_pages():
            gateway = self.gateway(polls=False)
        try:
            alone = self.resident_with(gateway, 1)
            together = self.resident_with(gateway, IDLE_CONNECTIONS + 1)
        finally:
            gateway.stop()
        return (together - alone) / IDLE_CONNECTIONS, {}

    def resident_with(self, gateway: Daemon, connections: int) -> int:
        """Bytes of the gateway's memory while so many connections are there that call now and then."""
        words = ["--op", "null", "--window", "1", "--connections", str(connections), "--rate", str(connections)]
        with subprocess.Popen(
            self.load_command(words, 3, 1), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as load:
            try:
                time.sleep(3)
                status = Path(f"/proc/{gateway.pid}/status").read_text()
                output, _ = load.communicate(timeout=60)
            finally:
                load.kill()
        if load.returncode != 0:
            raise LabError(f"causeway-load with {connections} connections: exit status {load.returncode}: {output}")
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024


@contextmanager
def without_huge_pages() -> Iterator[None]:
    """A program started meanwhile gets no transparent huge pages."""
    prctl, set_thp_disable = ctypes.CDLL(None).prctl, 41
    prctl(set_thp_disable, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(set_thp_disable, 0, 0, 0, 0)


def cpu_of(pid: int) -> float:
    """Seconds, user and system, of the threads that a process has: the scheduler's nanoseconds, finer than the ticks of stat."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def cpu_of_children() -> float:
    """Of those that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def write_for(port: int, seconds: float) -> None:
    block = bytes(BLOCK)
    with socket.create_connection(("127.0.0.1", port)) as stream:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            stream.sendall(block)


def read_all(listener: socket.socket) -> tuple[int, float]:
    """Bytes, and the seconds that they took."""
    block = memoryview(bytearray(BLOCK))
    stream, _ = listener.accept()
    begin = time.monotonic()
    count = 0
    with stream:
        while got := stream.recv_into(block):
            count += got
    return count, time.monotonic() - begin


Pair = tuple[Sample, Sample, Sample]  # ours, and TCP's before and after


def alternate(lab: Lab, what: str, pairs: int, ours: Callable[[], Measured], theirs: Callable[[], Measured]) -> list[Pair]:
    """A run that fails is told, and leaves out its neighbours."""

    def one(name: str, measure: Callable[[], Measured]) -> Optional[Sample]:
        samples: list[Sample] = []
        lab.sample(name, samples, measure)
        return samples[0] if samples else None

    out: list[Pair] = []
    before = one(f"TCP beside {what}", theirs)
    for _ in range(pairs):
        own = one(what, ours)
        after = one(f"TCP beside {what}", theirs)
        if before is not None and own is not None and after is not None:
            out.append((own, before, after))
        before = after
    return out


def pair_row(
    name: str, pairs: list[Pair], unit: str, beside: str, take: Callable[[Sample], float], more_is_better: bool = True
) -> dict[str, Any]:
    """The state of the CPUs is told and chooses nothing: whoever stands beside each other has mostly met the same."""
    own = [take(sample) for sample, _, _ in pairs]
    if not own:
        return row(name, [], unit)
    plain = [(take(before) + take(after)) / 2 for _, before, after in pairs]
    ratios = [mine / other if more_is_better else other / mine for mine, other in zip(own, plain)]
    states = {sample.state for pair in pairs for sample in pair}
    return {
        "name": name,
        "value": statistics.median(own),
        "unit": unit,
        "state": states.pop() if len(states) == 1 else "mixed",
        "spread": quartiles(own),
        "runs": len(own),
        "baseline": statistics.median(plain),
        "baseline_spread": quartiles(plain),
        "beside": beside,
        "ratio": statistics.median(ratios),
        "ratio_spread": quartiles(ratios),
        "good": all(value > 0 for value in own) and all(s.extra.get("wrong", 0) == 0 for pair in pairs for s in pair),
    }


def quartiles(values: list[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]]


def rows_of(name: str, pairs: list[Pair], rate: str, cpu: str, near: str, far: str) -> list[dict[str, Any]]:
    """The rate, and what either side took. `near`, `far`: who did TCP's part on the CPU of the gateway and of the client."""
    own = pair_row(name, pairs, rate, "plain TCP", lambda sample: sample.value)
    if pairs and "p50_us" in pairs[0][0].extra:
        own["p50_us"] = statistics.median(sample.extra["p50_us"] for sample, _, _ in pairs)
    rows = [own]
    busy = [Sample(sample.extra["gateway_busy"], sample.state, {}) for sample, _, _ in pairs]
    rows.append(row(f"{name}/gateway_busy", busy, cpu, more_is_better=False))
    for side, other in (("gateway_cpu", near), ("client_cpu", far)):
        rows.append(pair_row(f"{name}/{side}", pairs, cpu, other, lambda sample, side=side: sample.extra[side], False))  # type: ignore[misc]
    return rows


def remark(entry: dict[str, Any]) -> None:
    if "ratio_spread" in entry:
        low, high = entry["ratio_spread"]
        print(f"{entry['name']:36s} ratio {entry['ratio']:.2f} [{low:.2f} {high:.2f}] of {entry['runs']} pairs")


def measure(lab: Lab, _seconds: int, repeats: int, full: bool) -> list[dict[str, Any]]:
    bench = Bench(lab, 1)
    pairs = PAIRS if full else 1
    rows: list[dict[str, Any]] = []
    for small in filter(lambda each: is_wanted(each.name), SMALL if full else SMALL[:2]):
        for crc in (True, False):
            name = f"iwarp/{small.name}{'' if crc else '_no_crc'}"
            found = alternate(lab, name, pairs, lambda: bench.rpc(small, crc), lambda: bench.plain_rpc(small))
            added = rows_of(name, found, "RPC/s", "s/million", "tcp_peer's server", "tcp_peer's client")
            # Who polls takes the whole CPU, whatever it does.
            rows += added[:1] if small.polls else added[1:]
    gateway = bench.gateway(polls=False)
    try:
        for bulk in filter(lambda each: is_wanted(each.name), BULK):
            for crc in (True, False):
                name = f"iwarp/{bulk.name}{'' if crc else '_no_crc'}"
                found = alternate(
                    lab, name, pairs, lambda: bench.bulk(gateway, bulk, crc), lambda: bench.plain_stream(bulk.gateway_writes)
                )
                near, far = ("writer", "reader") if bulk.gateway_writes else ("reader", "writer")
                rows += rows_of(name, found, "GB/s", "s/GiB", f"a TCP stream's {near}", f"a TCP stream's {far}")
    finally:
        gateway.stop()
    idle: list[Sample] = []
    if not is_wanted("idle"):
        return rows
    for _ in range(repeats):
        lab.sample("idle", idle, bench.idle)
    rows.append(row("iwarp/bytes_per_idle_connection", idle, "bytes", more_is_better=False))
    return rows


if __name__ == "__main__":
    sys.exit(run("iwarp_bench", __doc__ or "", measure, remark))
