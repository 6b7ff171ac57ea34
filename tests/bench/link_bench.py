#!/usr/bin/env python3
"""Rates over the quickstart's link (memif, two processes, one CPU each): causewayd and causeway-load, next to dpdk-testpmd on a
pair of the same devices.

    tests/bench/link_bench.py BUILD_DIR [--full] [--json FILE]

Both programs spin. RPCs of causeway-load stand next to frames of testpmd in the same manner of use: bouncing, one way, one at a time.
SENDs of 64 bytes, each acknowledged, are those of causeway-verbs-peer on both sides (perftest's send_bw): the slower of requester
and responder sets their rate. link_lab.py says how two CPUs are dealt with.
"""

import sys
from typing import Any, NamedTuple, Optional

from link_lab import Lab, Measured, Sample, Testpmd, find_testpmd, row, run

# Frames of an echo call of 64 bytes, of a SEND of 64 bytes, and of a full packet of RoCE's largest path MTU.
ECHO_FRAME_BYTES = 198
SEND_FRAME_BYTES = 122
LARGE_FRAME_BYTES = 4170
LARGE_PAYLOAD_BYTES = 4096
SENDS_PER_SECOND_HOPED = 1_000_000


class Load(NamedTuple):
    name: str
    arguments: list[str]
    bulk: bool  # the figure is GB/s, not RPC/s
    beside: str


LOADS = [
    Load("echo64_w1", ["--op", "echo", "--bytes", "64", "--window", "1"], False, "echo_1"),
    Load("echo64_w8", ["--op", "echo", "--bytes", "64", "--window", "8"], False, "echo_8"),
    Load("echo64_w32", ["--op", "echo", "--bytes", "64", "--window", "32"], False, "echo_64"),
    Load("echo64_w8_c8", ["--op", "echo", "--bytes", "64", "--window", "8", "--connections", "8"], False, "echo_64"),
    Load("source_1m", ["--op", "source", "--bytes", "1048576", "--window", "8"], True, "stream_large"),
    Load("sink_1m", ["--op", "sink", "--bytes", "1048576", "--window", "8"], True, "stream_large"),
]


class Raw(NamedTuple):
    size: int
    outstanding: Optional[int]  # None: one way
    unit: str


RAW = {
    "echo_1": Raw(ECHO_FRAME_BYTES, 1, "frames/s"),
    "echo_8": Raw(ECHO_FRAME_BYTES, 8, "frames/s"),
    "echo_64": Raw(ECHO_FRAME_BYTES, 64, "frames/s"),
    "echo_64_send": Raw(SEND_FRAME_BYTES, 64, "frames/s"),
    "stream_large": Raw(LARGE_FRAME_BYTES, None, "GB/s"),
}


class Bench:
    def __init__(self, lab: Lab, seconds: int, testpmd: Optional[Testpmd]) -> None:
        self.lab = lab
        self.seconds = seconds
        self.testpmd = testpmd

    def load(self, load: Load) -> Measured:
        report = self.lab.load(self.seconds, load.arguments)
        value = report["data_bytes_per_second"] / 1e9 if load.bulk else report["calls_per_second"]
        extra = {"p50_us": report["latency_us"]["p50"], "p99_us": report["latency_us"]["p99"], "wrong": report["wrong"]}
        if "gateway_busy_ns" in report:
            extra["gateway_busy_ns"] = report["gateway_busy_ns"]
        return value, extra

    def raw(self, kind: str) -> Measured:
        assert self.testpmd is not None
        raw = RAW[kind]
        rate = self.testpmd.frames_per_second(raw.size, raw.outstanding, self.seconds)
        return (rate * LARGE_PAYLOAD_BYTES / 1e9 if raw.outstanding is None else rate), {}


def round_trips(name: str, samples: list[Sample], baseline: list[Sample]) -> dict[str, Any]:
    """The median wait of one call at a time, next to the time of one frame that bounces."""
    waits = [Sample(sample.extra["p50_us"], sample.state, {}) for sample in samples]
    bounces = [Sample(1e6 / sample.value, sample.state, {}) for sample in baseline if sample.value > 0]
    return row(name, waits, "us", bounces, "bare memif echo", more_is_better=False)


def measure(bench: Bench, repeats: int) -> list[dict[str, Any]]:
    """Round by round, so that what the machine does in between meets both programs."""
    loads: dict[str, list[Sample]] = {load.name: [] for load in LOADS}
    raws: dict[str, list[Sample]] = {kind: [] for kind in RAW}
    sends: list[Sample] = []
    for _ in range(repeats):
        if bench.testpmd is not None:
            for kind, samples in raws.items():
                bench.lab.sample(f"testpmd {kind}", samples, lambda kind=kind: bench.raw(kind))  # type: ignore[misc]
        gateway = bench.lab.gateway()
        try:
            for load in LOADS:
                bench.lab.sample(load.name, loads[load.name], lambda load=load: bench.load(load))  # type: ignore[misc]
        finally:
            gateway.stop()
        bench.lab.sample("sends", sends, lambda: bench.lab.messages("send_bw", 64, bench.seconds, SENDS_PER_SECOND_HOPED))
    rows = [
        row(f"link/{load.name}", loads[load.name], "GB/s" if load.bulk else "RPC/s", raws[load.beside], "testpmd")
        for load in LOADS
    ]
    rows.append(round_trips("link/echo64_w1_p50", loads["echo64_w1"], raws["echo_1"]))
    rows.append(row("link/send64_acknowledged", sends, "packets/s", raws["echo_64_send"], "testpmd"))
    rows += [row(f"link/testpmd_{kind}", samples, RAW[kind].unit) for kind, samples in raws.items() if samples]
    return rows


def rows(lab: Lab, seconds: int, repeats: int, full: bool) -> list[dict[str, Any]]:
    program = find_testpmd()
    if program is None:
        print("link_bench: no dpdk-testpmd (package dpdk-dev), hence nothing to compare with")
    # A smoke run tries our programs only.
    testpmd = Testpmd(lab, program) if program is not None and full else None
    return measure(Bench(lab, seconds, testpmd), repeats)


if __name__ == "__main__":
    sys.exit(run("link_bench", __doc__ or "", rows))
