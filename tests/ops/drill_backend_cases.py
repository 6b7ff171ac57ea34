"""Drills: a backend that is dead, slow, half-open, vanished, or resets in the middle of an answer."""

import os
import subprocess
from functools import partial

from cores_cases import OWN_NETWORK, run_in_own_network
from drill import PORT, BackendInTrouble, Drill, expect_intact, gateway_before
from harness import Box, Gateway, Load, expect, expect_equal
from lab.daemon import wait_until

REFUSED = "causeway_connections_refused_total"
CLOSED = "causeway_connections_closed_total"


def _load(box: Box, seconds: int, name: str = "load", operation: str = "echo", size: int = 512, window: int = 4) -> Load:
    load = box.load(
        "--reconnect", "--port", PORT, name=name, operation=operation, size=size, connections=4, window=window, seconds=seconds
    )
    load.wait_connected()
    return load


def _goes_on(gateway: Gateway, what: str) -> None:
    calls = gateway.metrics().total("causeway_backend_calls_total", backend="tcp")
    wait_until(lambda: gateway.metrics().total("causeway_backend_calls_total", backend="tcp") > calls + 20, 15, what)


def dead(box: Box) -> None:
    """Killed under load and back after a second: clients are refused meanwhile, and have every answer in the end."""
    backend = BackendInTrouble(box)
    gateway = gateway_before(box, backend.address)
    load = _load(box, 5)
    drill = Drill(box, gateway)
    backend.die()
    wait_until(lambda: gateway.metrics().total("causeway_backend_up", backend="tcp") == 0, 10, "the gateway sees the backend go")
    wait_until(lambda: gateway.metrics().total(REFUSED, reason="backend") > 0, 10, "clients are refused")
    during = gateway.metrics()
    backend.come()
    _goes_on(gateway, "calls after the return")
    expect_intact(load.result())
    drill.expect(
        r"warning backend tcp \(127\.0\.0\.1 port \d+\): cannot connect: Connection refused",
        "BackendDown",
        during,
        moved=((REFUSED, {"reason": "backend"}, 1), (CLOSED, {"reason": "failed_backend"}, 4)),
    )
    backend.close()
    gateway.terminate()


def slow(box: Box) -> None:
    """Late answers are right answers; that they are late shows in the stage of the backend, and in no other."""
    backend = BackendInTrouble(box)
    gateway = gateway_before(box, backend.address)
    load = _load(box, 3, window=1)
    drill = Drill(box, gateway)
    backend.delay_s = 1.2
    backend.mode = "slow"
    expect_intact(load.result())
    # Late is no failure, so there is no line of the log.
    drill.expect("", "BackendSlow", lasting=True, moved=(("causeway_rpc_stage_duration_seconds_sum", {"stage": "backend"}, 4),))
    expect_equal("connections lost", gateway.metrics().total(CLOSED, reason="failed_backend_timeout"), 0)
    backend.close()
    gateway.terminate()


def half_open(box: Box) -> None:
    """It takes connections and calls, and answers nothing: each call ends in time, and its client tries again until it is answered."""
    backend = BackendInTrouble(box)
    gateway = gateway_before(box, backend.address, call_timeout_s=1)
    load = _load(box, 5)
    drill = Drill(box, gateway)
    backend.mode = "silent"
    wait_until(lambda: gateway.metrics().total("causeway_backend_call_timeouts_total", backend="tcp") > 0, 10, "a call times out")
    backend.mode = "pass"
    expect_intact(load.result())
    drill.expect(
        r"warning connection from 10\.9\.0\.2 to port \d+ \(backend tcp\): failed_backend_timeout",
        "BackendCallTimeouts",
        moved=(("causeway_backend_call_timeouts_total", {"backend": "tcp"}, 1),),
    )
    backend.close()
    gateway.terminate()


def cut(operation: str, size: int, box: Box) -> None:
    """A reset after half of an answer: the half is thrown away, and the call is made again."""
    backend = BackendInTrouble(box)
    gateway = gateway_before(box, backend.address)
    load = _load(box, 4, operation=operation, size=size)
    drill = Drill(box, gateway)
    backend.mode = "cut"
    wait_until(lambda: gateway.metrics().total(CLOSED, reason="failed_backend") >= 4, 10, "all connections lose their backend")
    backend.mode = "pass"
    _goes_on(gateway, "calls after the resets")
    report = load.result()
    expect_intact(report)
    expect(report["interrupted"] > 0, "no call was interrupted")
    drill.expect(
        r"warning backend tcp \(127\.0\.0\.1 port \d+\): connection lost: Connection reset by peer",
        "BackendConnectionsLost",
        moved=((CLOSED, {"reason": "failed_backend"}, 4),),
    )
    backend.close()
    gateway.terminate()


VANISHED_CASE = "drill: a backend's host vanishes without a word, and calls end in time"


def vanished(box: Box) -> None:
    """Neither FIN nor RST nor any acknowledgement: the cable to the backend's host is out. Calls end by their time-out, new clients by
    that of the connection; both are served when it is in again."""
    if os.environ.get(OWN_NETWORK) is None:
        run_in_own_network(box, VANISHED_CASE)
        return
    far = subprocess.Popen(["unshare", "--net", "sleep", "120"])
    try:
        wait_until(lambda: os.readlink(f"/proc/{far.pid}/ns/net") != os.readlink("/proc/self/ns/net"), 10, "a network namespace")
        enter = f"nsenter --target {far.pid} --net"
        for words in (
            "ip link set lo up",
            f"ip link add near type veth peer name far netns {far.pid}",
            "ip link set near up",
            "ip address add 10.8.0.1/24 dev near",
            f"{enter} ip link set far up",
            f"{enter} ip address add 10.8.0.2/24 dev far",
        ):
            subprocess.run(words.split(), check=True, timeout=10)
        backend = BackendInTrouble(box, "10.8.0.2", far.pid)
        gateway = gateway_before(box, backend.address, call_timeout_s=1)
        load = _load(box, 8)
        drill = Drill(box, gateway)
        subprocess.run(["ip", "link", "set", "near", "down"], check=True, timeout=10)
        wait_until(
            lambda: gateway.metrics().total("causeway_backend_call_timeouts_total", backend="tcp") > 0, 10, "a call times out"
        )
        wait_until(lambda: gateway.metrics().total(REFUSED, reason="backend") > 0, 10, "a client is refused")
        during = gateway.metrics()
        subprocess.run(["ip", "link", "set", "near", "up"], check=True, timeout=10)
        _goes_on(gateway, "calls after the return")
        expect_intact(load.result())
        drill.expect(
            r"failed_backend_timeout",
            "BackendCallTimeouts",
            during,
            moved=(("causeway_backend_call_timeouts_total", {"backend": "tcp"}, 1), (REFUSED, {"reason": "backend"}, 1)),
        )
        backend.close()
        gateway.terminate()
    finally:
        far.kill()
        far.wait()


CASES = [
    ("drill: a backend dies under load and comes back", dead),
    ("drill: a backend is slow", slow),
    ("drill: a backend takes calls and answers none", half_open),
    ("drill: a backend resets in the middle of a small answer", partial(cut, "echo", 512)),
    ("drill: a backend resets in the middle of a large answer", partial(cut, "source", 200_000)),
    (VANISHED_CASE, vanished),
]
