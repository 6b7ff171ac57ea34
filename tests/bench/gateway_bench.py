#!/usr/bin/env python3
"""RPCs through the gateway to a TCP backend, next to the same number of client threads on TCP connections straight to that backend.

    tests/bench/gateway_bench.py BUILD_DIR [--full] [--json FILE]

The backend runs the bench program over TCP (tcp_peer serve); the client is causeway-load over memif, or tcp_peer load. What two CPUs
can tell: a gateway belongs on CPUs of its own, and here there are two for client, poll core, worker and backend together. So the same
is measured in three placements, and nothing is claimed of a fourth:

  shared    the client has one CPU, the gateway's poll core and worker have the other one, the backend runs where it likes; all sleep
            when idle. With the gateway two CPUs do more work: the ratio is what is left of the rate, a lower bound
  apart     the client spins on a CPU of its own in both cases; the backend has the other one, with the gateway's poll core and worker
            beside it or not. A lower bound too: the gateway takes its CPU time from the backend
  alone     one call at a time: the median wait, and what the gateway adds to it. The client spins on a CPU of its own. Poll core,
            worker and backend are on the other one and wake each other there, so that scheduling is in the figure. That CPU is kept
            awake by a program of the lowest priority, with the gateway and without: a CPU that sleeps takes longer to wake than
            the call takes, and a gateway that polls would be ahead of no gateway at all

`cpu_us` is CPU time of a process over RPCs, from /proc: what the gateway takes, and what client and backend take with and without it.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

from link_lab import CPUS, Daemon, Lab, LabError, Measured, Sample, row, run


class Case(NamedTuple):
    name: str
    window: int
    connections: int
    backend_cpu: Optional[int]  # index into CPUS; None: anywhere
    client_spins: bool
    backend_spins: bool
    kept_awake: bool = False  # the CPU that the client has not


CASES = [
    Case("shared_w32", 32, 1, None, False, False),
    Case("shared_w8_c8", 8, 8, None, False, False),
    Case("apart_w32", 32, 1, 1, True, False),
    Case("apart_w8_c8", 8, 8, 1, True, False),
    Case("alone_w1", 1, 1, 1, True, False, True),
]
KEEP_AWAKE = ["sh", "-c", "while :; do :; done"]


@contextmanager
def awake(lab: Lab, wanted: bool) -> Iterator[None]:
    """The gateway's CPU does not sleep meanwhile: what runs there leaves it at once to whoever else wants it."""
    command = ["taskset", "--cpu-list", str(lab.gateway_cpu), "chrt", "--idle", "0", *KEEP_AWAKE]
    spinner = Daemon("spinner", command, lab.directory / "spinner.log")
    if wanted:
        spinner.start()
    try:
        yield
    finally:
        spinner.stop()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process that runs, of all its threads."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total_ns += int((task / "schedstat").read_text().split()[0])
    return total_ns / 1e9


class Watched:
    """CPU time of processes while a client works; the client's own from its end."""

    def __init__(self, pids: dict[str, int]) -> None:
        self.pids = pids

    def run(self, command: list[str], timeout: float) -> tuple[str, dict[str, float]]:
        before = {name: cpu_seconds(pid) for name, pid in self.pids.items()}
        children = os.times()
        begun = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        seconds = time.monotonic() - begun
        ended = os.times()
        if done.returncode != 0:
            raise LabError(
                f"{Path(command[0]).name}: exit status {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}"
            )
        spent = {name: cpu_seconds(pid) - before[name] for name, pid in self.pids.items()}
        spent["client"] = (ended.children_user - children.children_user) + (ended.children_system - children.children_system)
        # Starting up is in these times, and calls of the warm-up are not counted: shares of the whole time stay right.
        return done.stdout, {name: value / seconds for name, value in spent.items()}


class Bench:
    def __init__(self, lab: Lab, seconds: int) -> None:
        self.lab = lab
        self.seconds = seconds
        self.peer = str(lab.build / "tests/bench/tcp_peer")

    def backend(self, case: Case) -> tuple[Daemon, int]:
        cpu = ["--cpu", str(CPUS[case.backend_cpu])] if case.backend_cpu is not None else []
        daemon = Daemon(
            "backend", [self.peer, "serve", *cpu, *(["--spin"] if case.backend_spins else [])], self.lab.directory / "backend.log"
        )
        daemon.start()
        daemon.wait_for_line(r"^port \d+", 10)
        return daemon, int(daemon.output().split("port ")[1].split()[0])

    @staticmethod
    def extra(shares: dict[str, float], rate: float) -> dict[str, Any]:
        return {f"cpu_us_{name}": share * 1e6 / rate for name, share in shares.items()}

    def direct(self, case: Case) -> Measured:
        backend, port = self.backend(case)
        try:
            command = [
                self.peer,
                "load",
                "--port",
                str(port),
                "--cpu",
                str(self.lab.load_cpu),
                "--window",
                str(case.window),
                "--connections",
                str(case.connections),
                "--seconds",
                str(self.seconds),
                *(["--spin"] if case.client_spins else []),
            ]
            text, shares = Watched({"backend": backend.pid}).run(command, 30 + self.seconds)
            report = json.loads(text)
            return report["calls_per_second"], {
                "p50_us": report["p50_us"],
                "p99_us": report["p99_us"],
                "wrong": report["wrong"],
                **self.extra(shares, report["calls_per_second"]),
            }
        finally:
            backend.stop()

    def through(self, case: Case) -> Measured:
        backend, port = self.backend(case)
        try:
            # Its workers where its poll core is: they leave the CPU to each other (README.md), and the client's is the client's.
            gateway = self.lab.gateway(
                backend=f'type = "tcp"\naddress = "127.0.0.1:{port}"',
                idle="sleep",
                dataplane=f"worker_lcores = [{self.lab.gateway_cpu}]",
            )
            try:
                result = self.lab.directory / "load.json"
                words = ["--op", "echo", "--bytes", "64", "--window", str(case.window), "--connections", str(case.connections)]
                command = self.lab.load_command(self.seconds, result, words, spin=case.client_spins)
                _, shares = Watched({"backend": backend.pid, "gateway": gateway.pid}).run(command, 60 + self.seconds)
                report = json.loads(result.read_text())
            finally:
                gateway.stop()
        finally:
            backend.stop()
        rate = report["calls_per_second"]
        return rate, {
            "p50_us": report["latency_us"]["p50"],
            "p99_us": report["latency_us"]["p99"],
            "wrong": report["wrong"],
            **self.extra(shares, rate),
        }


def rows_of(case: Case, through: list[Sample], direct: list[Sample]) -> list[dict[str, Any]]:
    def waits(samples: list[Sample]) -> list[Sample]:
        return [Sample(sample.extra["p50_us"], sample.state, {}) for sample in samples]

    if case.window * case.connections == 1:
        entry = row(f"gateway/{case.name}_p50", waits(through), "us", waits(direct), "direct TCP", more_is_better=False)
        if "baseline" in entry:
            entry["added_us"] = entry["value"] - entry["baseline"]
        return [entry]
    entry = row(f"gateway/{case.name}", through, "RPC/s", direct, "direct TCP")
    for key in ("cpu_us_client", "cpu_us_backend"):
        found = [sample.extra[key] for sample in direct if key in sample.extra]
        if found:
            entry[f"baseline_{key}"] = sorted(found)[len(found) // 2]
    return [entry]


def measure(lab: Lab, seconds: int, repeats: int, full: bool) -> list[dict[str, Any]]:
    cases = CASES if full else [CASES[1], CASES[4]]
    through: dict[str, list[Sample]] = {case.name: [] for case in cases}
    direct: dict[str, list[Sample]] = {case.name: [] for case in cases}
    bench = Bench(lab, seconds)
    for _ in range(repeats):
        for case in cases:
            with awake(lab, case.kept_awake):
                lab.sample(f"direct {case.name}", direct[case.name], lambda case=case: bench.direct(case))  # type: ignore[misc]
                lab.sample(f"gateway {case.name}", through[case.name], lambda case=case: bench.through(case))  # type: ignore[misc]
    return [entry for case in cases for entry in rows_of(case, through[case.name], direct[case.name])]


def remark(entry: dict[str, Any]) -> None:
    shares = ", ".join(f"{key.replace('cpu_us_', '')} {value:.2f}" for key, value in entry.items() if "cpu_us_" in key)
    if shares:
        print(f"{entry['name']}: CPU us per RPC: {shares}")
    if "added_us" in entry:
        print(f"{entry['name']}: the gateway adds {entry['added_us']:.1f} us, with scheduling on a shared CPU in it")


if __name__ == "__main__":
    sys.exit(run("gateway_bench", __doc__ or "", measure, remark))
