"""What every drill has in common: a gateway in front of a backend that can be made to misbehave, a load that loses nothing, and the
check afterwards.

A drill ends with `Drill.expect`: one line of the log names the cause, the metrics that should have moved did, and the alert as shipped
would fire. The load verifies every answer itself; `expect_intact` wants all of them right and none failed.
"""

import contextlib
import ctypes
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional

from alert_check import expect_would_fire
from harness import GATEWAY_CPU, Box, Gateway, Program, expect, expect_equal
from lab.metrics import Metrics
from lab.process_memory import resident_mb

BACKEND = """
[[listener]]
name = "tcp"
port = {port}
backend = "tcp"
{tcp_credits}
[[backend]]
name = "tcp"
type = "tcp"
address = "{address}"
connect_timeout_ms = {connect_timeout_ms}
call_timeout_s = {call_timeout_s}
check_interval_ms = 300
"""
PORT = 20050
LIBC = ctypes.CDLL(None, use_errno=True)


class Drill:
    """One trouble at one gateway."""

    def __init__(self, box: Box, gateway: Gateway) -> None:
        self._box = box
        self._gateway = gateway
        self._before = gateway.metrics()
        self._at = time.monotonic()
        self._log_at = len(gateway.output())

    def expect(
        self,
        line: str,
        alert: str = "",
        after: Optional[Metrics] = None,
        lasting: bool = False,
        moved: tuple[tuple[str, dict[str, str], float], ...] = (),
    ) -> None:
        """line: a pattern of the log; alert: none for what the gateway is meant to stand. moved: by at least so much. lasting: for alerts that want more than one such moment."""
        after = after or self._gateway.metrics()
        seconds = time.monotonic() - self._at
        said = self._gateway.output()[self._log_at :]
        expect(not line or re.search(line, said, re.MULTILINE) is not None, f"no line like {line!r} in the log:\n{said[-2000:]}")
        for name, labels, by in moved:
            difference = after.total(name, **labels) - self._before.total(name, **labels)
            expect(difference >= by, f"{name} {labels} moved by {difference}, expected {by} or more")
        if alert:
            expect_would_fire(self._box.directory, f"Causeway{alert}", self._before, after, seconds if lasting else None)

    def expect_down(self) -> None:
        """The gateway is gone, and Prometheus would say so."""
        expect_would_fire(self._box.directory, "CausewayDown", self._before, None)


def expect_intact(report: dict[str, Any], what: str = "load") -> None:
    """Every call was answered, and rightly, whatever happened to its connection."""
    counts = {key: report[key] for key in ("wrong", "failed", "unanswered")}
    expect(not any(counts.values()), f"{what}: {counts}")
    expect(report["calls"] > 0, f"{what}: no calls")
    expect_equal(f"{what}: calls sent again", report["resent"], report["interrupted"])


STOCK = 64  # buffers that a driver's ring and the next burst have at hand, now more of them, now fewer


@dataclass(frozen=True)
class Resources:
    """What a gateway holds: the same before and after whatever it did, or something leaks."""

    descriptors: float
    connections: float
    credits: float
    backend_sockets: float
    buffers: dict[str, float]
    resident_mb: float

    @staticmethod
    def of(gateway: Gateway) -> "Resources":
        metrics = gateway.metrics()
        return Resources(
            metrics.total("process_open_fds"),
            metrics.total("causeway_connections"),
            metrics.total("causeway_rpcrdma_credits_granted"),
            metrics.total("causeway_backend_connections"),
            metrics.by_label("causeway_mempool_available_objects", "pool"),
            resident_mb(gateway.pid),
        )

    def is_no_more_than(self, other: "Resources") -> bool:
        """Memory aside. The one before may have been taken with a check of a server under way: fewer descriptors are no fault."""
        buffers = all(count + STOCK >= other.buffers.get(pool, 0) for pool, count in self.buffers.items())
        counts = ("descriptors", "connections", "credits", "backend_sockets")
        return buffers and all(getattr(self, name) <= getattr(other, name) for name in counts)


def expect_back_to(baseline: Resources, gateway: Gateway, slack_mb: float, timeout: float = 15) -> Resources:
    """Connections that ended are remembered for a while (time wait), hence the time. Memory: the allocator keeps some, hence slack."""
    deadline = time.monotonic() + timeout
    while not (now := Resources.of(gateway)).is_no_more_than(baseline) and time.monotonic() < deadline:
        time.sleep(0.2)
    expect(now.is_no_more_than(baseline), f"held: {now}, before: {baseline}")
    expect(
        now.resident_mb <= baseline.resident_mb + slack_mb,
        f"resident memory rose from {baseline.resident_mb:.1f} to {now.resident_mb:.1f} MiB",
    )
    return now


class BackendInTrouble:
    """An RPC server over TCP (the bench program), and before it a relay that does as it is told: `mode` is
    pass; slow (each answer waits for `delay_s`); silent (takes calls and answers none); stalled (takes nothing: TCP's window closes);
    cut (the next answer is cut in its middle, by a reset, and those of other connections too)."""

    def __init__(self, box: Box, host: str = "127.0.0.1", namespace_of: Optional[int] = None) -> None:
        """namespace_of: the process in whose network namespace `host` is an address."""
        self._host = host
        self._namespace_of = namespace_of
        self.mode = "pass"
        self.delay_s = 0.0
        self._server = Program(
            "backend",
            [str(box.build / "tests/bench/tcp_peer"), "serve", "--cpu", str(GATEWAY_CPU)],
            box.directory / "backend.log",
            box.env,
        )
        box.programs.append(self._server)
        self._server.start()
        self._server.wait_for_line(r"^port \d+", 10)
        found = re.search(r"^port (\d+)", self._server.output(), re.MULTILINE)
        assert found is not None
        self._server_address = ("127.0.0.1", int(found[1]))
        self._open: list[socket.socket] = []
        self._listening: Optional[socket.socket] = None
        self._port = 0
        self.come()

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    def come(self) -> None:
        """Takes connections (again)."""
        self.mode = "pass"
        with _network_of(self._namespace_of):
            self._listening = socket.create_server((self._host, self._port))
        self._port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def die(self) -> None:
        """Nobody listens any more, and all connections are reset, as when a process is killed."""
        assert self._listening is not None
        # A thread that waits in accept() would keep the socket listening.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._open:
            _reset(each)
        self._open.clear()

    def close(self) -> None:
        self.die()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                near, _ = listening.accept()
                far = socket.create_connection(self._server_address)
            except OSError:
                return
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open += [near, far]
            threading.Thread(target=self._calls, args=(near, far), daemon=True).start()
            threading.Thread(target=self._answers, args=(far, near), daemon=True).start()

    def _calls(self, near: socket.socket, far: socket.socket) -> None:
        try:
            while data := near.recv(65536):
                while self.mode == "stalled":
                    time.sleep(0.01)
                if self.mode != "silent":
                    far.sendall(data)
        except OSError:
            pass
        _reset(far)

    def _answers(self, far: socket.socket, near: socket.socket) -> None:
        try:
            while data := far.recv(65536):
                if self.mode == "cut":
                    near.sendall(data[: len(data) // 2])
                    break
                time.sleep(self.delay_s if self.mode == "slow" else 0)
                near.sendall(data)
        except OSError:
            pass
        _reset(near)


@contextlib.contextmanager
def _network_of(process: Optional[int]) -> Iterator[None]:
    """Sockets that this thread makes belong to the network namespace of that process; None: to our own."""
    if process is None:
        yield
        return
    with open("/proc/thread-self/ns/net", "rb") as own, open(f"/proc/{process}/ns/net", "rb") as other:
        expect(
            LIBC.setns(other.fileno(), 0) == 0,
            f"cannot enter the network of process {process}: {os.strerror(ctypes.get_errno())}",
        )
        try:
            yield
        finally:
            expect(LIBC.setns(own.fileno(), 0) == 0, "cannot leave it")


def _reset(each: socket.socket) -> None:
    """Ends it by a reset, also when another thread waits in it: connecting to no address is what does that on Linux."""
    if each.fileno() >= 0:
        LIBC.connect(each.fileno(), bytes(16), 16)
    each.close()


def gateway_before(
    box: Box,
    address: str,
    connect_timeout_ms: int = 1000,
    call_timeout_s: int = 60,
    more: str = "",
    tcp_credits: str = "credits = 32",
    **options: str,
) -> Gateway:
    """A gateway, ready, whose port PORT leads to a TCP backend; port 20049 leads to the program built in."""
    gateway = box.gateway(**options)
    config = box.directory / "gateway.toml"
    config.write_text(
        config.read_text()
        + BACKEND.format(
            port=PORT,
            address=address,
            connect_timeout_ms=connect_timeout_ms,
            call_timeout_s=call_timeout_s,
            tcp_credits=tcp_credits,
        )
        + more
    )
    gateway.start_ready()
    return gateway
