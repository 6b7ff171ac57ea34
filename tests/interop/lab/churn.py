"""Connections that come and go, from a real client: ucmatose of rdma-core connects a few at a time and is ended, whereupon
the kernel hangs up for it.

What it leaves is read from the metrics: no connection, half-open or open, no backend link, every packet buffer back.
"""

import time
from typing import Callable

from lab.daemon import LabError, wait_until
from lab.metrics import Metrics
from lab.rig import Rig

EACH = 25  # connections of one ucmatose: well below limits.connections_max

# What must be as it was.
GAUGES = (
    "causeway_connections",
    "causeway_connections_half_open",
    "causeway_rpcrdma_credits_granted",
    "causeway_rpcrdma_credits_in_use",
    "causeway_backend_connections",
    "causeway_backend_inflight_calls",
)
# Packet buffers that may be under way in a device's rings, which no scrape can hold still. Anything that a connection kept would be
# a multiple of their number.
BUFFERS_UNDER_WAY = 64


def churn(count: int, seconds_at_most: int) -> Callable[[Rig], None]:
    assert count % EACH == 0

    def body(rig: Rig) -> None:
        assert rig.gateway
        gateway = rig.gateway
        # The first lets everybody learn everybody's address, and warms the caches of the buffer pools.
        _connect(rig, 1, 60)
        wait_until(lambda: _opened(gateway.metrics()) == 0, 30, "the first connection is gone", interval=0.5)
        before = gateway.metrics()
        start = time.monotonic()
        _connect(rig, count // EACH, seconds_at_most)
        seconds = time.monotonic() - start
        try:
            wait_until(lambda: _left(before, gateway.metrics()) == "", 20, "everything is back where it was", interval=0.5)
        except LabError as error:
            raise LabError(f"{error}; after {count} connections {_left(before, gateway.metrics())}") from error
        after = gateway.metrics()
        after.lint()
        established = _established(after) - _established(before)
        refused = after.total("causeway_connections_refused_total") - before.total("causeway_connections_refused_total")
        if established != count or refused:
            raise LabError(f"{established:.0f} of {count} connections established, {refused:.0f} refused")
        print(f"   {count} connections in {seconds:.1f} s", flush=True)

    return body


def _connect(rig: Rig, rounds: int, timeout: float) -> None:
    """Not the client says when all are connected: siw of Linux 6.1 tells no state of a queue pair."""
    assert rig.gateway
    gateway = rig.gateway
    end = time.monotonic() + timeout
    for _ in range(rounds):
        rig.guest.check(f"connect_many {rig.server} {rig.port} {EACH}", 10)
        open_now = f"{EACH} connections are open"
        wait_until(
            lambda: gateway.metrics().total("causeway_connections") == EACH, end - time.monotonic(), open_now, interval=0.05
        )
        rig.guest.check("hang_up", 10)
        wait_until(lambda: _opened(gateway.metrics()) == 0, end - time.monotonic(), "all of them are gone", interval=0.05)


def _left(before: Metrics, after: Metrics) -> str:
    def changed(name: str, slack: int = 0) -> list[str]:
        was, now = before.total(name), after.total(name)
        return [f"{name} is {now:.0f}, was {was:.0f}"] if abs(now - was) > slack else []

    found = [text for name in GAUGES for text in changed(name)]
    return "; ".join(found + changed("causeway_mempool_available_objects", BUFFERS_UNDER_WAY))


def _opened(metrics: Metrics) -> float:
    return metrics.total("causeway_connections") + metrics.total("causeway_connections_half_open")


def _established(metrics: Metrics) -> float:
    return metrics.total("causeway_connections_total", result="established")
