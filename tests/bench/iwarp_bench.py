#!/usr/bin/env python3
"""iWARP over loopback TCP, next to plain TCP between the same two CPUs.

    tests/bench/iwarp_bench.py BUILD_DIR [--full] [--json FILE]

  echo64      RPC/s of the bench program, over iWARP and RPC-over-RDMA, beside tcp_peer on ONC RPC over TCP: the same calls, checked
              by their client, a CPU for each side, both of which sleep when idle
  read1m      GB/s of calls with 1 MiB of answer (RDMA Write), and write1m with 1 MiB of argument (RDMA Read), CRC on and off, beside a
              TCP connection on which one process writes 1 MiB at a time and the other reads it into the same place again and again
  idle        bytes that the gateway's memory grows by for each connection that has made a call: VmRSS of 150 more connections

Everything that TCP does is the kernel's, on both sides of each ratio.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from link_lab import Daemon, Lab, LabError, Measured, Sample, gateway_config, row, run

PORT = 20049
BLOCK = 1 << 20
IDLE_CONNECTIONS = 150


class Small(NamedTuple):
    name: str
    window: int
    connections: int


SMALL = [Small("echo64_w32", 32, 1), Small("echo64_w8_c8", 8, 8), Small("echo64_w1", 1, 1)]
BULK = {"read1m": "source", "write1m": "sink"}


class Bench:
    def __init__(self, lab: Lab, seconds: int) -> None:
        self.lab = lab
        self.seconds = seconds
        self.peer = str(lab.build / "tests/bench/tcp_peer")

    def gateway(self, crc: bool = True) -> Daemon:
        config = self.lab.directory / "iwarp.toml"
        config.write_text(
            gateway_config(
                instance=f"bench-{os.getpid()}",
                poll_lcores=self.lab.gateway_cpu,
                dataplane='idle = "sleep"',
                listener=f'transport = "iwarp"\naddress = "127.0.0.1"\nport = {PORT}',
                admin=self.lab.directory / "admin.sock",
                metrics="off",
                extra=f"[limits]\nconnections_max = 200\n[iwarp]\ncrc = {'true' if crc else 'false'}",
            )
        )
        daemon = Daemon(
            "causewayd", [str(self.lab.build / "apps/causewayd"), "--config", str(config)], self.lab.directory / "causewayd.log"
        )
        daemon.start()
        daemon.wait_for_line("causewayd: ready", 30)
        return daemon

    def load_command(self, words: list[str], seconds: int) -> list[str]:
        program = str(self.lab.build / "apps/load/causeway-load")
        common = ["--transport", "iwarp", "--server", "127.0.0.1", "--port", str(PORT), "--lcore", str(self.lab.load_cpu)]
        result = str(self.lab.directory / "load.json")
        return [program, *common, "--seconds", str(seconds), "--warmup", "1", "--verify-every", "64", "--json", result, *words]

    def load(self, words: list[str], crc: bool = True) -> dict[str, Any]:
        gateway = self.gateway(crc)
        try:
            command = self.load_command([*words, *([] if crc else ["--no-crc"])], self.seconds)
            done = subprocess.run(command, capture_output=True, text=True, timeout=60 + self.seconds, check=False)
        finally:
            gateway.stop()
        if done.returncode != 0:
            raise LabError(
                f"causeway-load {' '.join(words)}: exit status {done.returncode}: {(done.stderr or done.stdout).strip()}"
            )
        report: dict[str, Any] = json.loads((self.lab.directory / "load.json").read_text())
        return report

    def rpc(self, case: Small) -> Measured:
        words = ["--op", "echo", "--bytes", "64", "--window", str(case.window), "--connections", str(case.connections)]
        report = self.load(words)
        return report["calls_per_second"], {"p50_us": report["latency_us"]["p50"], "wrong": report["wrong"]}

    def plain_rpc(self, case: Small) -> Measured:
        backend = Daemon("backend", [self.peer, "serve", "--cpu", str(self.lab.gateway_cpu)], self.lab.directory / "backend.log")
        backend.start()
        try:
            backend.wait_for_line(r"^port \d+", 10)
            port = re.findall(r"port (\d+)", backend.output())[-1]
            command = [self.peer, "load", "--port", port, "--cpu", str(self.lab.load_cpu), "--window", str(case.window)]
            command += ["--connections", str(case.connections), "--seconds", str(self.seconds)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60 + self.seconds, check=True)
        finally:
            backend.stop()
        report = json.loads(done.stdout)
        return report["calls_per_second"], {"p50_us": report["p50_us"], "wrong": report["wrong"]}

    def bulk(self, op: str, crc: bool) -> Measured:
        report = self.load(["--op", op, "--bytes", "1m", "--window", "8", "--connections", "1"], crc)
        return report["calls_per_second"] * BLOCK / 1e9, {"wrong": report["wrong"]}

    def plain_stream(self) -> Measured:
        """One direction of a TCP connection, from the load's CPU to the gateway's."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            writer = os.fork()
            if writer == 0:
                os.sched_setaffinity(0, {self.lab.load_cpu})
                write_for(listener.getsockname()[1], self.seconds + 1)
                os._exit(0)
            own = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {self.lab.gateway_cpu})
            try:
                rate = read_all(listener)
            finally:
                os.sched_setaffinity(0, own)
                os.waitpid(writer, 0)
        return rate, {}

    def idle(self) -> Measured:
        gateway = self.gateway()
        try:
            alone = self.resident_with(gateway, 1)
            together = self.resident_with(gateway, IDLE_CONNECTIONS + 1)
        finally:
            gateway.stop()
        return (together - alone) / IDLE_CONNECTIONS, {}

    def resident_with(self, gateway: Daemon, connections: int) -> int:
        """Bytes of the gateway's memory while so many connections are there that call now and then."""
        words = ["--op", "null", "--window", "1", "--connections", str(connections), "--rate", str(connections)]
        with subprocess.Popen(self.load_command(words, 3), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as load:
            try:
                time.sleep(3)
                status = Path(f"/proc/{gateway.pid}/status").read_text()
                output, _ = load.communicate(timeout=60)
            finally:
                load.kill()
        if load.returncode != 0:
            raise LabError(f"causeway-load with {connections} connections: exit status {load.returncode}: {output}")
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024


def write_for(port: int, seconds: float) -> None:
    block = bytes(BLOCK)
    with socket.create_connection(("127.0.0.1", port)) as stream:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            stream.sendall(block)


def read_all(listener: socket.socket) -> float:
    """GB/s from the first second's end to the last byte."""
    block = memoryview(bytearray(BLOCK))
    stream, _ = listener.accept()
    with stream:
        begin = time.monotonic() + 1
        counted, last = 0, begin
        while got := stream.recv_into(block):
            now = time.monotonic()
            if now > begin:
                counted, last = counted + got, now
    return counted / (last - begin) / 1e9


def measure(lab: Lab, seconds: int, repeats: int, full: bool) -> list[dict[str, Any]]:
    bench = Bench(lab, seconds)
    small = SMALL if full else SMALL[:1]
    rpc: dict[str, list[Sample]] = {case.name: [] for case in small}
    plain: dict[str, list[Sample]] = {case.name: [] for case in small}
    bulk: dict[tuple[str, bool], list[Sample]] = {(name, crc): [] for name in BULK for crc in (True, False)}
    stream: list[Sample] = []
    idle: list[Sample] = []
    for _ in range(repeats):
        for case in small:
            lab.sample(f"plain {case.name}", plain[case.name], lambda case=case: bench.plain_rpc(case))  # type: ignore[misc]
            lab.sample(f"iwarp {case.name}", rpc[case.name], lambda case=case: bench.rpc(case))  # type: ignore[misc]
        lab.sample("plain stream", stream, bench.plain_stream)
        for (name, crc), samples in bulk.items():
            lab.sample(f"iwarp {name}", samples, lambda name=name, crc=crc: bench.bulk(BULK[name], crc))  # type: ignore[misc]
    lab.sample("idle", idle, bench.idle)
    rows = [row(f"iwarp/{case.name}", rpc[case.name], "RPC/s", plain[case.name], "plain TCP") for case in small]
    for (name, crc), samples in bulk.items():
        rows.append(row(f"iwarp/{name}{'' if crc else '_no_crc'}", samples, "GB/s", stream, "a TCP stream"))
    rows.append(row("iwarp/bytes_per_idle_connection", idle, "bytes", more_is_better=False))
    return rows


if __name__ == "__main__":
    sys.exit(run("iwarp_bench", __doc__ or "", measure))
