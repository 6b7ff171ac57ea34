"""What the benches of several programs share: two CPUs and their distance, a memif link, causewayd and causeway-load on it, rows.

A rate of two CPUs follows their distance (core_distance.h), so each run is bracketed by two looks at it: a run during which it
changed is discarded, and a ratio is made only of runs in one state. Each figure is the median of its runs; `spread` is their least
and greatest. A run that fails is told and left out; a figure without any run that succeeded is not good.
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
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional, Sequence

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/interop"))

from lab.daemon import Daemon, LabError  # noqa: E402
from lab.gateway_config import BENCH_PROGRAM, gateway_config  # noqa: E402

CACHE = Path(os.environ.get("CAUSEWAY_CACHE", "/var/cache/causeway-tests"))
CPUS = sorted(os.sched_getaffinity(0))
MESSAGE_QPS = 4

TESTPMD_BURST = 32  # frames that it handles at a time

Measured = tuple[float, dict[str, Any]]


class Sample(NamedTuple):
    value: float
    state: str  # "near", "far"; "changed" when it was not the same before and after
    extra: dict[str, Any]


class Lab:
    """One link and two CPUs; a directory for sockets, logs and results."""

    def __init__(self, build: Path, directory: Path) -> None:
        self.build = build
        self.directory = directory
        self.load_cpu, self.gateway_cpu = CPUS[0], CPUS[1]
        self.failures: list[str] = []

    def device(self, role: str, socket: str = "link.sock") -> str:
        return f"net_memif0,role={role},socket={self.directory}/{socket},socket-abstract=no,bsize=8192"

    def distance(self) -> str:
        """State of the two CPUs: near or far."""
        program = self.build / "tests/bench/core_distance"
        line = subprocess.run(
            [program, str(self.load_cpu), str(self.gateway_cpu), "20"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
        return line.split()[0]

    def sample(self, what: str, samples: list[Sample], measure: Callable[[], Measured]) -> None:
        """Measures between two looks at the distance. A failure is told, and leaves no sample."""
        before = self.distance()
        try:
            value, extra = measure()
        except (LabError, OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
            self.failures.append(f"{what}: {error}")
            print(f"{what}: a run failed: {error}", file=sys.stderr)
            return
        samples.append(Sample(value, before if before == self.distance() else "changed", extra))

    def gateway(
        self, backend: str = BENCH_PROGRAM, idle: str = "spin", listener: str = "", extra: str = "", dataplane: str = ""
    ) -> Daemon:
        config = self.directory / "causeway.toml"
        config.write_text(
            gateway_config(
                instance=f"bench-{os.getpid()}",
                main_lcore=self.gateway_cpu,
                poll_lcores=self.gateway_cpu,
                dataplane=f'idle = "{idle}"\n{dataplane}',
                device=self.device("server"),
                port='addresses = ["10.9.0.1/24"]',
                listener=listener,
                backend=backend,
                admin=self.directory / "admin.sock",
                metrics="off",
                extra=extra,
            )
        )
        # Of an earlier gateway.
        (self.directory / "link.sock").unlink(missing_ok=True)
        daemon = Daemon(
            "causewayd", [str(self.build / "apps/causewayd"), "--config", str(config)], self.directory / "causewayd.log"
        )
        daemon.start()
        daemon.wait_for_line("causewayd: ready", 30)
        return daemon

    def load_command(self, seconds: int, result: Path, words: Sequence[str], spin: bool = True) -> list[str]:
        result.unlink(missing_ok=True)
        return [
            str(self.build / "apps/load/causeway-load"),
            "--device",
            self.device("client"),
            "--address",
            "10.9.0.2/24",
            "--server",
            "10.9.0.1",
            "--mtu",
            "4500",
            "--lcore",
            str(self.load_cpu),
            *(["--spin"] if spin else []),
            "--seconds",
            str(seconds),
            "--warmup",
            "1",
            "--verify-every",
            "64",
            "--json",
            str(result),
            *words,
        ]

    def load(self, seconds: int, words: Sequence[str], spin: bool = True) -> dict[str, Any]:
        """causeway-load to its end: its report. With `gateway_busy_ns`, the time per RPC of the poll core's turns that found work,
        over the middle of the run."""
        result = self.directory / "load.json"
        with subprocess.Popen(
            self.load_command(seconds, result, words, spin), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as load:
            try:
                time.sleep(1.3)  # behind its warm-up
                first = self.gateway_work()
                time.sleep(seconds - 0.6)
                last = self.gateway_work()
                output, _ = load.communicate(timeout=60 + seconds)
            finally:
                load.kill()
        if load.returncode != 0:
            log = "\n".join((self.directory / "causewayd.log").read_text(errors="replace").splitlines()[-8:])
            raise LabError(f"causeway-load {' '.join(words)}: exit status {load.returncode}\n{output}causewayd:\n{log}")
        report = json.loads(result.read_text())
        if last[1] > first[1]:
            report["gateway_busy_ns"] = (last[0] - first[0]) * 1e9 / (last[1] - first[1])
        return report

    def messages(self, test: str, size: int, seconds: int, hoped: int, queue_pairs: int = MESSAGE_QPS) -> Measured:
        """Messages per second that the responder acknowledged: perftest's `test` between two causeway-verbs-peer, for about so many
        seconds if `hoped` a second are possible."""
        (self.directory / "messages.sock").unlink(missing_ok=True)
        each = max(1, max(seconds, 1) * hoped // queue_pairs)
        program = str(self.build / "tests/peers/causeway-verbs-peer")
        common = ["--mtu", "4500", "--perftest", test, "-s", str(size), "-n", str(each), "-q", str(queue_pairs)]
        server = Daemon(
            "responder",
            [
                program,
                "-d",
                self.device("server", "messages.sock"),
                "-a",
                "10.9.0.1/24",
                "--lcore",
                str(self.gateway_cpu),
                *common,
                "--server",
            ],
            self.directory / "responder.log",
        )
        server.start()
        try:
            server.wait_for_line("ready", 30)
            client = subprocess.run(
                [
                    program,
                    "-d",
                    self.device("client", "messages.sock"),
                    "-a",
                    "10.9.0.2/24",
                    "--lcore",
                    str(self.load_cpu),
                    *common,
                    "--client",
                    "10.9.0.1",
                ],
                capture_output=True,
                text=True,
                timeout=60 + 10 * seconds,
                check=False,
            )
            if client.returncode != 0:
                raise LabError(f"causeway-verbs-peer: exit status {client.returncode}: {client.stderr.strip()}")
            server.wait_for_end(20)
        finally:
            server.stop()
        report = json.loads(client.stdout[client.stdout.index("result ") + len("result ") :].splitlines()[0])
        result = report["sessions"][0]["results"][0]
        return result["messages"] / result["seconds"], {
            "retransmitted": report["counters"]["retransmitted"],
            "tail_probes": report["counters"]["tail_probes"],
        }

    def gateway_work(self) -> tuple[float, int]:
        """Busy seconds of the poll core, and RPCs that connections which are there have had answered."""
        cores, connections = (
            json.loads(
                subprocess.run(
                    [
                        str(self.build / "apps/causewayctl"),
                        "--socket",
                        str(self.directory / "admin.sock"),
                        what,
                        "show",
                        "--json",
                    ],
                    capture_output=True,
                    text=True,
                    timeout=10,
                    check=True,
                ).stdout
            )[what]
            for what in ("cores", "connections")
        )
        return sum(core["busy_seconds"] for core in cores), sum(connection["rpcs"] for connection in connections)


class Testpmd:
    """testpmd against testpmd on a pair of the same devices."""

    def __init__(self, lab: Lab, program: Path) -> None:
        self.lab = lab
        self.program = program
        self.sockets = 0

    def _start(self, name: str, role: str, socket: str, cpu: int, arguments: list[str]) -> Daemon:
        # Two lcores on one CPU: the first only prints.
        command = [
            str(self.program),
            "--no-huge",
            "-m",
            "512",
            "--no-pci",
            "--lcores",
            f"0@{cpu},1@{cpu}",
            "--no-telemetry",
            "--file-prefix",
            f"{name}{os.getpid()}",
            "--vdev",
            self.lab.device(role, socket),
            "--",
            "--auto-start",
            "--stats-period=1",
            "--total-num-mbufs=8192",
            "--mbuf-size=9216",
            "--port-topology=loop",
            "--no-mlockall",
            "--rxd=1024",
            "--txd=1024",
            *arguments,
        ]
        return Daemon(name, command, self.lab.directory / f"{name}.log")

    def _first(self, outstanding: int) -> list[str]:
        """Puts so many frames on their way. Several bursts, so that one end works on the one while the other has the next."""
        bursts = -(-outstanding // TESTPMD_BURST)
        commands = self.lab.directory / "testpmd.commands"
        commands.write_text(f"start tx_first {bursts}\n")
        return [f"--burst={outstanding // bursts}", f"--cmdline-file={commands}"]

    def frames_per_second(self, size: int, outstanding: Optional[int], seconds: int) -> float:
        """Of frames that bounce, so many of them on their way; or (None) of a stream one way. The median second; with one frame the
        best, since its reciprocal stands for a round trip that nobody interrupted."""
        self.sockets += 1
        socket = f"pmd{self.sockets}.sock"
        stream = outstanding is None
        one = self._start(
            "pmd-server",
            "server",
            socket,
            self.lab.gateway_cpu,
            ["--forward-mode=rxonly" if stream else "--forward-mode=macswap", "--disable-link-check"],
        )
        sender = (
            ["--forward-mode=txonly", f"--txpkts={size}"]
            if stream
            else ["--forward-mode=macswap", f"--txpkts={size}", *self._first(outstanding or 1)]
        )
        two = self._start("pmd-client", "client", socket, self.lab.load_cpu, sender)
        try:
            one.start()
            one.wait_for_line("packet forwarding", 30)
            two.start()
            two.wait_for_line("packet forwarding", 30)
            rates: list[float] = []

            def enough() -> bool:
                rates[:] = [float(rate) for rate in re.findall(r"Rx-pps:\s+(\d+)", one.output())]
                return len([rate for rate in rates if rate > 0]) >= seconds + 2

            try:
                one.wait_for(enough, seconds + 15, "rates")
            except LabError:
                pass
            moving = [rate for rate in rates if rate > 0][1:]
        finally:
            two.kill()
            one.kill()
        if not moving:
            raise LabError(f"testpmd, {size} bytes: no frame arrived\n{one.tail()}")
        return max(moving) if outstanding == 1 else statistics.median(moving)


def find_testpmd() -> Optional[Path]:
    """Where Debian's package puts it, or unpacked by the interop lab."""
    found = shutil.which("dpdk-testpmd")
    unpacked = CACHE / "testpmd/usr/bin/dpdk-testpmd"
    if found is not None:
        return Path(found)
    return unpacked if unpacked.exists() else None


def row(
    name: str,
    samples: list[Sample],
    unit: str,
    baseline: Optional[list[Sample]] = None,
    beside: str = "",
    more_is_better: bool = True,
) -> dict[str, Any]:
    """Of the runs in the state that most of them were in and the baseline's were in too. Where there is no such state, of all of
    them: then `state` says mixed. The ratio is above 1 where the value is the better one."""
    if not samples:
        return {"name": name, "value": 0, "unit": unit, "spread": [0, 0], "runs": 0, "good": False}
    steady = [sample for sample in samples if sample.state != "changed"]
    common = [sample for sample in steady if not baseline or sample.state in {other.state for other in baseline}]
    state = statistics.mode(sample.state for sample in common) if common else "mixed"
    chosen = [sample for sample in common if sample.state == state] or samples
    values = [sample.value for sample in chosen]
    result: dict[str, Any] = {
        "name": name,
        "value": statistics.median(values),
        "unit": unit,
        "state": state,
        "spread": [min(values), max(values)],
        "runs": len(values),
        "discarded": len(samples) - len(values),
    }
    result["good"] = result["value"] > 0 and all(sample.extra.get("wrong", 0) == 0 for sample in chosen)
    for key in sorted({key for sample in chosen for key in sample.extra} - {"wrong"}):
        found = [sample.extra[key] for sample in chosen if key in sample.extra]
        result[key] = statistics.median(found) if all(isinstance(value, (int, float)) for value in found) else found[0]
    raw = [sample.value for sample in baseline or [] if state in (sample.state, "mixed")]
    if raw:
        result["baseline"] = statistics.median(raw)
        result["baseline_spread"] = [min(raw), max(raw)]
        result["beside"] = beside
        result["ratio"] = result["value"] / result["baseline"] if more_is_better else result["baseline"] / result["value"]
    return result


def absent(name: str, why: str) -> dict[str, Any]:
    """A figure that cannot be taken here; it is told, and is no failure."""
    return {"name": name, "absent": why}


def print_row(entry: dict[str, Any]) -> None:
    if "absent" in entry:
        print(f"{entry['name']:36s} absent: {entry['absent']}")
        return
    low, high = entry["spread"]
    state = "no run" if entry.get("runs") == 0 else entry.get("state", "")
    print(
        f"{entry['name']:36s} {entry['value']:14.2f} {entry['unit']:12s} [{low:.2f} {high:.2f}]  {state}"
        + (f"  {entry['ratio']:.2f} of {entry['beside']}" if "ratio" in entry else "")
        + (f"  p50 {entry['p50_us']:.1f} us" if "p50_us" in entry else "")
        + (f"  {entry['bytes']} bytes" if "bytes" in entry else "")
        + (f"  gateway busy {entry['gateway_busy_ns']:.0f} ns" if "gateway_busy_ns" in entry else "")
    )


def finish(rows: list[dict[str, Any]], path: Optional[Path]) -> int:
    """Prints and writes; the exit status."""
    for entry in rows:
        print_row(entry)
    if path is not None:
        path.write_text(json.dumps(rows, indent=1))
    return 0 if all(entry.get("good", True) for entry in rows) else 1


def command_line(description: str, full: str) -> argparse.Namespace:
    """BUILD_DIR, --full and --json, which every bench of several programs takes; `full` says what --full does."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--full", action="store_true", help=full)
    parser.add_argument("--json", type=Path, help="write the figures here")
    return parser.parse_args()


def run(
    name: str,
    description: str,
    measure: Callable[[Lab, int, int, bool], list[dict[str, Any]]],
    remark: Callable[[dict[str, Any]], None] = lambda entry: None,
) -> int:
    """The main of a bench on the link: reads the command line, calls measure(lab, seconds of a run, runs, full) for the rows, prints
    and writes them, then what `remark` has to say of each; the exit status. With --full there are five runs of four seconds, else
    one short one, to see that it works."""
    options = command_line(description, "long runs, five of each")
    if len(CPUS) < 2:
        print(f"{name}: two CPUs are needed; skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="cwb") as directory:  # short: UNIX sockets are in it
        os.environ["XDG_RUNTIME_DIR"] = os.environ["RUNTIME_DIRECTORY"] = directory  # DPDK's files
        lab = Lab(options.build.resolve(), Path(directory))
        rows = measure(lab, 4 if options.full else 1, 5 if options.full else 1, options.full)
    status = finish(rows, options.json)
    for entry in rows:
        remark(entry)
    return status
