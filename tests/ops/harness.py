"""What the cases share: a private directory, programs in it, their output, and the end of all of them.

A gateway and a load meet over memif, a link in memory that needs neither root nor hugepages. Whatever a case starts, its Box
stops; files of a failed case stay in the log directory.
"""

import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Optional, Union

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/interop"))

from lab.daemon import Daemon, LabError, patient  # noqa: E402
from lab.gateway_config import gateway_config  # noqa: E402
from lab.metrics import Metrics, scrape  # noqa: E402

READY_LIMIT_S = 30
STOP_LIMIT_S = 15  # what the gateway promises
SHARED_ANSWER_S = 0.26  # a little more than MetricsServer::kCacheTime
SERVICE_PORT = 20049
CREDITS = 32

CPUS = sorted(os.sched_getaffinity(0))
GATEWAY_CPU = CPUS[min(1, len(CPUS) - 1)]
LOAD_CPU = CPUS[0]


class Skip(Exception):
    """The case cannot run here; the text says why."""


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise LabError(what)


def expect_equal(what: str, have: Any, want: Any) -> None:
    expect(have == want, f"{what}: {have!r}, expected {want!r}")


# Below those that the kernel gives to whoever connects: what is free now stays free until the case's program takes it. Each case has a
# range to itself, each run another start.
PORTS_OF_A_CASE = 64
FIRST_PORT = random.randrange(8000, 18000)
_ports = itertools.count(FIRST_PORT)


def take_ports(case: int) -> None:
    """From now on ports come from the range of this case."""
    global _ports
    first = FIRST_PORT + case * PORTS_OF_A_CASE
    _ports = itertools.cycle(range(first, first + PORTS_OF_A_CASE))


def free_tcp_address() -> str:
    for port in itertools.islice(_ports, PORTS_OF_A_CASE):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue  # somebody else's
            return f"127.0.0.1:{port}"
    raise LabError("no TCP port is free")


class Program(Daemon):
    """A program that ends by itself, sooner or later."""

    def finish(self, timeout: float) -> int:
        assert self._process is not None
        try:
            return self._process.wait(patient(timeout))
        except subprocess.TimeoutExpired:
            raise LabError(
                f"{self.name} did not end within {patient(timeout):g} s, last lines:\n{self.tail()}\nthreads:\n{self.threads()}"
            ) from None

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)


class Gateway(Program):
    admin: str
    metrics_address: str
    _next_scrape = 0.0

    def start_ready(self) -> None:
        self.start()
        self.wait_for_line(r"^causewayd: ready", READY_LIMIT_S)

    def check_alive(self) -> None:
        expect(self.alive(), f"causewayd is gone ({self.exit_text()}), last lines:\n{self.tail()}")

    def terminate(self, number: int = signal.SIGTERM) -> None:
        self.check_alive()
        self.signal(number)
        expect_equal("exit status of causewayd after " + signal.Signals(number).name, self.finish(STOP_LIMIT_S), 0)

    def metrics(self) -> Metrics:
        """Never the answer that the last call got, which the gateway gives to all who ask within a moment: it would be older than what
        the case has seen elsewhere since."""
        time.sleep(max(0.0, self._next_scrape - time.monotonic()))
        self.check_alive()
        metrics = scrape(self.metrics_address)
        self._next_scrape = time.monotonic() + SHARED_ANSWER_S
        return metrics


class Load(Program):
    json_path: Path

    def result(self, timeout: float = 60, status: Optional[int] = 0) -> dict[str, Any]:
        """Waits for the end and returns the JSON report."""
        ended = self.finish(timeout)
        expect(status is None or ended == status, f"{self.name}: exit status {ended}, last lines:\n{self.tail(14)}")
        expect(self.json_path.exists(), f"{self.name} wrote no report, last lines:\n{self.tail(14)}")
        return json.loads(self.json_path.read_text())

    def wait_connected(self, timeout: float = 30) -> None:
        self.wait_for_line(r"connections up", timeout)


class Box:
    """One case's place in the file system and its programs."""

    def __init__(self, build: Path, directory: Path) -> None:
        self.build = build
        self.directory = directory
        self.programs: list[Daemon] = []
        # DPDK keeps its runtime files here, not in /var/run.
        self.env = dict(os.environ, RUNTIME_DIRECTORY=str(directory), XDG_RUNTIME_DIR=str(directory))
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def causewayd(self) -> Path:
        return self.build / "apps/causewayd"

    @property
    def causewayctl(self) -> Path:
        return self.build / "apps/causewayctl"

    @property
    def causeway_load(self) -> Path:
        return self.build / "apps/load/causeway-load"

    @property
    def hostile_peer(self) -> Path:
        return self.build / "tests/peers/hostile-peer"

    def run(self, *argv: object, timeout: float = 20) -> "subprocess.CompletedProcess[str]":
        """Runs a command to its end; status and output are the caller's to judge."""
        return subprocess.run(
            [str(word) for word in argv],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.env,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def device(self, role: str, link: str = "link", number: int = 0) -> str:
        return f"net_memif{number},role={role},socket={self.directory}/{link}.sock,socket-abstract=no,bsize=8192"

    def write_config(self, name: str = "gateway", role: str = "server", link: str = "link", **changes: str) -> Path:
        """A working configuration; `changes` replace its values."""
        values = dict(
            instance=f"ops-{os.getpid()}-{name}",
            cpu=GATEWAY_CPU,
            device=self.device(role, link),
            credits=CREDITS,
            listener="",
            idle="sleep",
            gateway_extra="",
            dataplane="memory_mb = 512",
            address="10.9.0.1/24",
            port_extra="",
            extra="",
            metrics_extra="",
            admin=f"{self.directory}/{name}.admin",
            metrics=free_tcp_address(),
        )
        values.update(changes)
        values.setdefault("main_cpu", values["cpu"])
        values.setdefault("cpus", values["cpu"])
        path = self.directory / f"{name}.toml"
        path.write_text(
            gateway_config(
                instance=values["instance"],
                gateway=values["gateway_extra"],
                main_lcore=values["main_cpu"],
                poll_lcores=values["cpus"],
                dataplane=f'idle = "{values["idle"]}"\n{values["dataplane"]}',
                device=values["device"],
                port=f'addresses = ["{values["address"]}"]\n{values["port_extra"]}',
                listener=f'credits = {values["credits"]}\n{values["listener"]}',
                admin=values["admin"],
                metrics=values["metrics"],
                metrics_extra=values["metrics_extra"],
                extra=values["extra"],
            )
        )
        return path

    def gateway(self, name: str = "gateway", **options: str) -> Gateway:
        """A gateway with its configuration, not started."""
        options.setdefault("metrics", free_tcp_address())
        options.setdefault("admin", f"{self.directory}/{name}.admin")
        config = self.write_config(name, **options)
        gateway = Gateway(name, [str(self.causewayd), "--config", str(config)], self.directory / f"{name}.log", self.env)
        gateway.admin = options["admin"]
        gateway.metrics_address = options["metrics"]
        self.programs.append(gateway)
        return gateway

    def load(
        self,
        *words: object,
        name: str = "load",
        role: str = "client",
        link: str = "link",
        operation: Optional[str] = "echo",
        size: Union[int, str] = 64,
        connections: Optional[int] = 1,
        window: int = 8,
        seconds: int = 2,
        network: int = 0,
        host: int = 2,
        lie: str = "",
    ) -> Load:
        """A load, started. network, host: where it is, of the gateway's networks. lie: the rule that it breaks (hostile-peer)."""
        cpu = [] if "--lcore" in words else ["--lcore", LOAD_CPU]
        device = [] if "--device" in words else ["--device", self.device(role, link)]
        calls = [] if operation is None else ["--op", operation, "--bytes", size]
        many = [] if connections is None else ["--connections", connections]  # None: the words say them, or what to call
        program = [self.hostile_peer, lie] if lie else [self.causeway_load]
        return self._start_load(
            name,
            *program,
            *device,
            "--address",
            f"10.9.{network}.{host}/24",
            "--server",
            f"10.9.{network}.1",
            "--mtu",
            4500,
            *cpu,
            *calls,
            *many,
            "--window",
            window,
            "--seconds",
            seconds,
            "--warmup",
            0,
            *words,
        )

    def iwarp_load(self, port: Union[int, str], *words: object, name: str = "iwarp-load") -> Load:
        """A load over iWARP to this host's port, started."""
        to = ["--transport", "iwarp", "--server", "127.0.0.1", "--port", port]
        return self._start_load(name, self.causeway_load, *to, "--lcore", LOAD_CPU, "--warmup", 0, *words)

    def _start_load(self, name: str, *argv: object) -> Load:
        json_path = self.directory / f"{name}.json"
        json_path.unlink(missing_ok=True)
        # stdbuf: lines reach the log when they are printed.
        words = ["stdbuf", "-oL", *argv, "--json", json_path]
        load = Load(name, [str(word) for word in words], self.directory / f"{name}.log", self.env)
        load.json_path = json_path
        self.programs.append(load)
        load.start()
        return load

    def ctl(self, gateway: Gateway, *words: str) -> str:
        done = self.run(self.causewayctl, "--socket", gateway.admin, *words)
        expect(done.returncode == 0, f"causewayctl {' '.join(words)}: exit status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def ctl_json(self, gateway: Gateway, *words: str) -> Any:
        return json.loads(self.ctl(gateway, *words, "--json"))

    def close(self) -> None:
        """Ends what still runs, the last started first: loads before their gateway."""
        for program in reversed(self.programs):
            program.stop(patient(STOP_LIMIT_S))
