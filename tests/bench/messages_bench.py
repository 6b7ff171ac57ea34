#!/usr/bin/env python3
"""Messages of other user-space transports between two processes, one CPU each, next to ours over memif: UCX over shared memory, which
stands closest to memif, UCX over TCP, and libfabric's udp;ofi_rxd; 64 bytes and in bulk.

    tests/bench/messages_bench.py BUILD_DIR [--full] [--json FILE]

Ours are messages one way, SENDs and RDMA Writes between two causeway-verbs-peer, each acknowledged; and RPCs of causeway-load and
causewayd, call and reply, checked. Theirs:
  fi_pingpong (package libfabric-bin)   messages there and back, one at a time; it has no other test
  ucx_perftest (ucx-utils)              tag_bw: a stream of messages one way; tag_lat: there and back, one at a time
A program that is not installed leaves its rows absent, which is no failure. Each of ours stands next to each of theirs that does the
same: a stream next to streams, there and back next to there and back, where a message one way and its answer count as two.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from typing import Any, NamedTuple

from link_lab import Daemon, Lab, LabError, Measured, Sample, absent, row, run

SMALL = 64
BULK = (65536, 1048576)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Kind(NamedTuple):
    """What is done: who stands next to whom."""

    name: str
    size: int
    there_and_back: bool = False

    @property
    def is_bulk(self) -> bool:
        return self.size != SMALL


STREAM_64 = Kind("64", SMALL)
STREAM_64K = Kind("64k", BULK[0])
STREAM_1M = Kind("1m", BULK[1])
THERE_AND_BACK = Kind("there_and_back", SMALL, there_and_back=True)


class Other(NamedTuple):
    peer: str
    kind: Kind
    program: str
    package: str
    transport: str

    @property
    def name(self) -> str:
        return f"{self.peer}_{self.kind.name}"

    @property
    def unit(self) -> str:
        return "GB/s" if self.kind.is_bulk else "messages/s"


OTHERS = [
    Other("libfabric_rxd", THERE_AND_BACK, "fi_pingpong", "libfabric-bin", "udp;ofi_rxd"),
    *(
        Other(f"ucx_{transport}", kind, "ucx_perftest", "ucx-utils", transport)
        for transport in ("tcp", "shm")
        for kind in (STREAM_64, THERE_AND_BACK, STREAM_64K, STREAM_1M)
    ),
]


class Ours(NamedTuple):
    name: str
    arguments: list[str]
    kind: Kind


OURS = [
    Ours("echo64", ["--op", "echo", "--bytes", "64", "--window", "8", "--connections", "8"], STREAM_64),
    Ours("echo64_there_and_back", ["--op", "echo", "--bytes", "64", "--window", "1"], THERE_AND_BACK),
    Ours("source_64k", ["--op", "source", "--bytes", "65536", "--window", "16"], STREAM_64K),
    Ours("sink_64k", ["--op", "sink", "--bytes", "65536", "--window", "16"], STREAM_64K),
    Ours("source_1m", ["--op", "source", "--bytes", "1048576", "--window", "8"], STREAM_1M),
    Ours("sink_1m", ["--op", "sink", "--bytes", "1048576", "--window", "8"], STREAM_1M),
]


class OurMessages(NamedTuple):
    name: str
    test: str  # perftest's
    kind: Kind
    hoped: int  # a second


OUR_MESSAGES = [
    OurMessages("send64", "send_bw", STREAM_64, 1_000_000),
    OurMessages("send64_there_and_back", "send_lat", THERE_AND_BACK, 200_000),
    OurMessages("send_64k", "send_bw", STREAM_64K, 50_000),
    OurMessages("write_64k", "write_bw", STREAM_64K, 50_000),
    OurMessages("send_1m", "send_bw", STREAM_1M, 3_000),
    OurMessages("write_1m", "write_bw", STREAM_1M, 3_000),
]


class Bench:
    def __init__(self, lab: Lab, seconds: int) -> None:
        self.lab = lab
        self.seconds = seconds

    def our_messages(self, one: OurMessages) -> Measured:
        if one.kind.there_and_back:
            rate, extra = self.lab.messages(one.test, one.kind.size, self.seconds, one.hoped, queue_pairs=1)
            return 2 * rate, extra
        rate, extra = self.lab.messages(one.test, one.kind.size, self.seconds, one.hoped)
        return (rate * one.kind.size / 1e9 if one.kind.is_bulk else rate), extra

    def ours(self, one: Ours) -> Measured:
        report = self.lab.load(self.seconds, one.arguments)
        calls = report["calls_per_second"] * (2 if one.kind.there_and_back else 1)
        value = report["data_bytes_per_second"] / 1e9 if one.kind.is_bulk else calls
        return value, {"wrong": report["wrong"], "p50_us": report["latency_us"]["p50"]}

    def other(self, one: Other) -> Measured:
        return self.pingpong(one) if one.program == "fi_pingpong" else self.ucx(one)

    def both(self, server: list[str], client: list[str], environment: dict[str, str], line: str) -> list[str]:
        """The last line like `line` that the client prints, in words; each end on its own CPU."""
        taskset = ["taskset", "--cpu-list"]
        daemon = Daemon(
            "other",
            [*taskset, str(self.lab.gateway_cpu), *server],
            self.lab.directory / "other.log",
            {**os.environ, **environment},
        )
        daemon.start()
        try:
            for _ in range(20):  # until the server listens; a client that found none may call that a success
                time.sleep(0.2)
                done = subprocess.run(
                    [*taskset, str(self.lab.load_cpu), *client],
                    capture_output=True,
                    text=True,
                    env={**os.environ, **environment},
                    timeout=60 + 10 * self.seconds,
                    check=False,
                )
                found = [text for text in done.stdout.splitlines() if re.match(line, text)]
                if found or not daemon.alive():
                    break
        finally:
            daemon.stop(3)
        if not found:
            raise LabError(
                f"{client[0]}: exit status {done.returncode}, no figures: {(done.stderr + done.stdout).strip()[-300:]}"
            )
        return re.split("[, ]+", found[-1].strip())

    def pingpong(self, one: Other) -> Measured:
        count = max(200, 100_000 * self.seconds // 4)
        port = str(free_port())
        common = ["-p", one.transport, "-e", "rdm", "-S", str(one.kind.size), "-I", str(count)]
        # bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec
        fields = self.both(
            ["fi_pingpong", *common, "-B", port],
            ["fi_pingpong", *common, "-P", port, "127.0.0.1"],
            {"FI_LOG_LEVEL": "error"},
            r"\d",
        )
        us = float(fields[6])
        return 1e6 / us, {"us_per_message": us}

    def ucx(self, one: Other) -> Measured:
        size = one.kind.size
        count = (max(200, (1 << 33) // size // 4) if one.kind.is_bulk else 1_000_000) * self.seconds // 4
        port = str(free_port())
        environment = {
            "UCX_TLS": f"{one.transport},self",
            "UCX_NET_DEVICES": "lo" if one.transport == "tcp" else "all",
            "UCX_LOG_LEVEL": "error",
        }
        # -f: the last line only; -v: as comma-separated values.
        common = ["ucx_perftest", "-p", port, "-f", "-v"]
        test = "tag_lat" if one.kind.there_and_back else "tag_bw"
        words = ["127.0.0.1", "-t", test, "-s", str(size), "-n", str(max(count, 100)), "-w", "100"]
        # iterations, latency percentile, average, overall, bandwidth (MB/s) average, overall, message rate average, overall
        fields = self.both(common, [*common, *words], environment, r" *\d+,")
        rate = 1e6 / float(fields[3]) if one.kind.there_and_back else float(fields[-1])
        return (rate * size / 1e9 if one.kind.is_bulk else rate), {"messages_per_second": rate}


def measure(lab: Lab, seconds: int, repeats: int, full: bool) -> list[dict[str, Any]]:
    present = [one for one in OTHERS if shutil.which(one.program) and shutil.which("taskset")]
    ours: dict[str, list[Sample]] = {one.name: [] for one in (*OURS, *OUR_MESSAGES)}
    others: dict[str, list[Sample]] = {one.name: [] for one in OTHERS}
    bench = Bench(lab, seconds)
    for _ in range(repeats):
        for other in present:
            lab.sample(other.name, others[other.name], lambda other=other: bench.other(other))  # type: ignore[misc]
        for some in OUR_MESSAGES:
            lab.sample(some.name, ours[some.name], lambda some=some: bench.our_messages(some))  # type: ignore[misc]
        gateway = lab.gateway()
        try:
            for one in OURS:
                lab.sample(one.name, ours[one.name], lambda one=one: bench.ours(one))  # type: ignore[misc]
        finally:
            gateway.stop()
    rows: list[dict[str, Any]] = []
    for other in OTHERS:
        if other not in present:
            rows.append(absent(f"messages/{other.name}", f"no {other.program} (package {other.package})"))
        else:
            rows.append(row(f"messages/{other.name}", others[other.name], other.unit))
            # What another project's program does not do here is no failure of ours.
            rows[-1]["good"] = True
            if rows[-1]["runs"] == 0:
                failure = next(text for text in lab.failures if text.startswith(other.name))
                rows[-1] = absent(f"messages/{other.name}", failure.splitlines()[0])
    for name, kind, small in [
        *((one.name, one.kind, "messages/s" if one.kind.there_and_back else "RPC/s") for one in OURS),
        *((some.name, some.kind, "messages/s") for some in OUR_MESSAGES),
    ]:
        for other in present:
            if other.kind == kind and others[other.name]:
                rows.append(
                    row(
                        f"messages/{name}_beside_{other.name}",
                        ours[name],
                        "GB/s" if kind.is_bulk else small,
                        others[other.name],
                        other.name,
                    )
                )
    return rows


if __name__ == "__main__":
    sys.exit(run("messages_bench", __doc__ or "", measure))
