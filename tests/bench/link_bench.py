#!/usr/bin/env python3
"""Rates over the quickstart's link (memif, two processes, one CPU each): causewayd and causeway-load, next to dpdk-testpmd on a
pair of the same devices.

    tests/bench/link_bench.py BUILD_DIR [--full] [--json FILE]

Both programs spin. A rate of two CPUs follows their distance (core_distance.cc), so each run is bracketed by two looks at it: a run
during which it changed is discarded, and a ratio is made only of runs in one state. Each figure is the median of its runs;
`spread` is their least and greatest.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/interop"))

from lab.daemon import Daemon, LabError  # noqa: E402

CACHE = Path(os.environ.get("CAUSEWAY_CACHE", "/var/cache/causeway-tests"))
CPUS = sorted(os.sched_getaffinity(0))
# Frame of an echo call of 64 octets; and of a full packet of RoCE's largest path MTU.
SMALL_FRAME_BYTES = 198
LARGE_FRAME_BYTES = 4170

CONFIG = """\
[gateway]
instance = "bench-{pid}"
[dataplane]
main_lcore = {cpu}
poll_lcores = [{cpu}]
idle = "spin"
[[port]]
device = "{device}"
mtu = 4500
addresses = ["10.9.0.1/24"]
[[listener]]
backend = "bench"
[[backend]]
name = "bench"
type = "builtin"
programs = ["bench"]
[admin]
socket = "{directory}/admin.sock"
[metrics]
listen = "off"
"""


class Load(NamedTuple):
    name: str
    arguments: list[str]
    bulk: bool  # the figure is GB/s, not RPC/s


LOADS = [
    Load("echo64_w1", ["--op", "echo", "--bytes", "64", "--window", "1"], False),
    Load("echo64_w32", ["--op", "echo", "--bytes", "64", "--window", "32"], False),
    Load("echo64_w8_c8", ["--op", "echo", "--bytes", "64", "--window", "8", "--connections", "8"], False),
    Load("source_1m", ["--op", "source", "--bytes", "1048576", "--window", "8"], True),
    Load("sink_1m", ["--op", "sink", "--bytes", "1048576", "--window", "8"], True),
]
# What stands next to each: the raw link in the same manner of use.
BASELINES = {"echo64_w1": "echo_1", "echo64_w32": "echo_64", "echo64_w8_c8": "echo_64", "source_1m": "stream_large",
             "sink_1m": "stream_large"}


class Sample(NamedTuple):
    value: float
    state: str  # "near", "far"; "changed" when it was not the same before and after
    extra: dict[str, Any]


class Bench:
    def __init__(self, build: Path, seconds: int, directory: Path) -> None:
        self.build = build
        self.seconds = seconds
        self.directory = directory
        self.load_cpu, self.gateway_cpu = CPUS[0], CPUS[1]
        self.testpmd = find_testpmd()
        self.sockets = 0

    def device(self, role: str, socket: str) -> str:
        return f"net_memif0,role={role},socket={self.directory}/{socket},socket-abstract=no,bsize=8192"

    def distance(self) -> str:
        """State of the two CPUs: near or far."""
        program = self.build / "tests/bench/core_distance"
        line = subprocess.run([program, str(self.load_cpu), str(self.gateway_cpu), "20"], capture_output=True, text=True,
                              timeout=30, check=True).stdout
        return line.split()[0]

    def in_one_state(self, measure: Callable[[], tuple[float, dict[str, Any]]]) -> Sample:
        before = self.distance()
        value, extra = measure()
        after = self.distance()
        return Sample(value, before if before == after else "changed", extra)

    def gateway(self) -> Daemon:
        config = self.directory / "causeway.toml"
        config.write_text(CONFIG.format(pid=os.getpid(), cpu=self.gateway_cpu, directory=self.directory,
                                        device=self.device("server", "link.sock")))
        # Of an earlier gateway.
        (self.directory / "link.sock").unlink(missing_ok=True)
        daemon = Daemon("causewayd", [str(self.build / "dataplane/causewayd"), "--config", str(config)],
                        self.directory / "causewayd.log")
        daemon.start()
        daemon.wait_for_line("causewayd: ready", 30)
        return daemon

    def load(self, load: Load) -> tuple[float, dict[str, Any]]:
        result = self.directory / "load.json"
        result.unlink(missing_ok=True)
        command = [str(self.build / "tests/loadgen/causeway-load"), "--device", self.device("client", "link.sock"),
                   "--address", "10.9.0.2/24", "--server", "10.9.0.1", "--mtu", "4500", "--lcore", str(self.load_cpu), "--spin",
                   "--seconds", str(self.seconds), "--warmup", "1", "--verify-every", "64", "--json", str(result), *load.arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 + self.seconds, check=False)
        if done.returncode != 0:
            log = "\n".join((self.directory / "causewayd.log").read_text(errors="replace").splitlines()[-8:])
            raise LabError(f"causeway-load {load.name}: exit status {done.returncode}\n{done.stdout}{done.stderr}causewayd:\n{log}")
        report = json.loads(result.read_text())
        value = report["data_bytes_per_second"] / 1e9 if load.bulk else report["calls_per_second"]
        return value, {"p50_us": report["latency_us"]["p50"], "p99_us": report["latency_us"]["p99"], "wrong": report["wrong"]}

    def pmd(self, name: str, role: str, socket: str, cpu: int, arguments: list[str]) -> Daemon:
        # Two lcores on one CPU: the first only prints.
        command = [str(self.testpmd), "--no-huge", "-m", "512", "--no-pci", "--lcores", f"0@{cpu},1@{cpu}", "--no-telemetry",
                   "--file-prefix", f"{name}{os.getpid()}", "--vdev", self.device(role, socket), "--", "--auto-start",
                   "--stats-period=1", "--total-num-mbufs=8192", "--mbuf-size=9216", "--port-topology=loop", "--no-mlockall",
                   "--rxd=1024", "--txd=1024", *arguments]
        return Daemon(name, command, self.directory / f"{name}.log")

    def raw(self, kind: str) -> tuple[float, dict[str, Any]]:
        """testpmd against testpmd: frames that bounce (echo_N: N of them on their way), or a stream. Per second."""
        self.sockets += 1
        socket = f"pmd{self.sockets}.sock"
        stream = kind == "stream_large"
        size = LARGE_FRAME_BYTES if stream else SMALL_FRAME_BYTES
        outstanding = 1 if stream else int(kind.split("_")[1])
        one = self.pmd("pmd-server", "server", socket, self.gateway_cpu,
                       ["--forward-mode=rxonly" if stream else "--forward-mode=macswap", "--disable-link-check"])
        burst = min(outstanding, 32)
        sender = ["--forward-mode=txonly", f"--txpkts={size}"] if stream else [
            "--forward-mode=macswap", f"--txpkts={size}", f"--burst={burst}", "--tx-first"]
        two = self.pmd("pmd-client", "client", socket, self.load_cpu, sender)
        try:
            one.start()
            one.wait_for_line("packet forwarding", 30)
            two.start()
            two.wait_for_line("packet forwarding", 30)
            rates: list[float] = []

            def enough() -> bool:
                rates[:] = [float(rate) for rate in re.findall(r"Rx-pps:\s+(\d+)", one.output())]
                return len([rate for rate in rates if rate > 0]) >= self.seconds + 2

            try:
                one.wait_for(enough, self.seconds + 15, "rates")
            except LabError:
                pass
            moving = [rate for rate in rates if rate > 0][1:]
        finally:
            two.kill()
            one.kill()
        if not moving:
            raise LabError(f"testpmd {kind}: no frame arrived\n{one.tail()}")
        rate = statistics.median(moving)
        return (rate * (LARGE_FRAME_BYTES - 74) / 1e9 if stream else rate), {}


def find_testpmd() -> Optional[Path]:
    """Where Debian's package puts it, or unpacked by the interop lab, or unpacked here."""
    found = shutil.which("dpdk-testpmd")
    unpacked = CACHE / "testpmd/usr/bin/dpdk-testpmd"
    if found is not None:
        return Path(found)
    return unpacked if unpacked.exists() else None


def row(name: str, samples: list[Sample], unit: str, baseline: Optional[list[Sample]]) -> dict[str, Any]:
    """Of the runs in the state that most of them were in."""
    steady = [sample for sample in samples if sample.state != "changed"] or samples
    state = statistics.mode(sample.state for sample in steady)
    values = [sample.value for sample in steady if sample.state == state]
    result: dict[str, Any] = {"name": f"link/{name}", "value": statistics.median(values), "unit": unit, "state": state,
                              "spread": [min(values), max(values)], "runs": len(values), "discarded": len(samples) - len(values)}
    extras = [sample.extra for sample in steady if sample.state == state]
    result["good"] = result["value"] > 0 and all(extra.get("wrong", 0) == 0 for extra in extras)
    for key in ("p50_us", "p99_us"):
        if key in extras[0]:
            result[key] = statistics.median(extra[key] for extra in extras)
    raw = [sample.value for sample in baseline or [] if sample.state == state]
    if raw:
        result["baseline"] = statistics.median(raw)
        result["ratio"] = result["value"] / result["baseline"]
    return result


def measure(bench: Bench, repeats: int) -> list[dict[str, Any]]:
    """Round by round, so that what the machine does in between meets both programs."""
    loads: dict[str, list[Sample]] = {load.name: [] for load in LOADS}
    raws: dict[str, list[Sample]] = {kind: [] for kind in dict.fromkeys(BASELINES.values())}
    for _ in range(repeats):
        if bench.testpmd is not None:
            for kind, samples in raws.items():
                samples.append(bench.in_one_state(lambda kind=kind: bench.raw(kind)))  # type: ignore[misc]
        gateway = bench.gateway()
        try:
            for load in LOADS:
                loads[load.name].append(bench.in_one_state(lambda load=load: bench.load(load)))  # type: ignore[misc]
        finally:
            gateway.stop()
    rows = [row(load.name, loads[load.name], "GB/s" if load.bulk else "RPC/s", raws[BASELINES[load.name]]) for load in LOADS]
    for kind, samples in raws.items():
        if samples:
            rows.append(row(f"testpmd_{kind}", samples, "GB/s" if kind.startswith("stream") else "frames/s", None))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--full", action="store_true", help="long runs, five of each")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    if len(CPUS) < 2:
        print("link_bench: two CPUs are needed; skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="cwb") as directory:  # short: UNIX sockets are in it
        os.environ["XDG_RUNTIME_DIR"] = os.environ["RUNTIME_DIRECTORY"] = directory  # DPDK's files
        bench = Bench(arguments.build.resolve(), 4 if arguments.full else 1, Path(directory))
        if bench.testpmd is None:
            print("link_bench: no dpdk-testpmd (package dpdk-dev), hence nothing to compare with")
        elif not arguments.full:
            bench.testpmd = None  # a smoke run tries our programs only
        rows = measure(bench, 5 if arguments.full else 1)
    for entry in rows:
        low, high = entry["spread"]
        print(f"{entry['name']:28s} {entry['value']:14.2f} {entry['unit']:8s} [{low:.2f} {high:.2f}]  {entry['state']}"
              + (f"  {entry['ratio']:.2f} of testpmd" if "ratio" in entry else "")
              + (f"  p50 {entry['p50_us']:.1f} us" if "p50_us" in entry else ""))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1))
    return 0 if all(entry["good"] for entry in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
