"""Drills: for each pool that clients share, one that means harm beside one that does not. The honest one calls at a moderate rate, in an
open loop, so that each call that had to wait shows; it keeps its rate, no call waits beyond a bound, and the pool comes back when the
other has died without a word.

apps/sim finds out what of the protocols is a peer's to take (causeway-sim --isolation); these drills are about the real pools, workers
and sockets, of a gateway whose [limits] are the defaults.
"""

import signal
import time
from typing import Any, Callable, Union

import pktgen_cases
from drill import PORT, BackendInTrouble, Drill, Resources, expect_back_to, expect_intact, gateway_before
from harness import CPUS, Box, Gateway, Load, expect, expect_equal
from lab.daemon import wait_until

HOSTILE_LINK = "hostile"
HOSTILE_PORT = PORT + 1  # leads to a backend of its own
RATE = 100  # calls per second of the honest one
SECONDS = 10
HOSTILE_CPU = CPUS[2 % len(CPUS)]
HOSTILE_S = 6  # of which it is honest for one
RATE_MIN = 0.8
# Of a call of the honest one. Machines of test suites have few CPUs, which both loads share with the gateway.
WAIT_MAX_S = 2.0
# The gateway gives up what a dead client does not take.
BACK_S = 60
DEAD_PEERS = "[roce]\nkeepalive_s = 1\n"


def _two_networks(box: Box, address: str, **options: Any) -> Gateway:
    """A gateway that both can reach, each by a link and in a network of its own."""
    port = f'[[port]]\ndevice = "{box.device("server", HOSTILE_LINK, 1)}"\nmtu = 4500\naddresses = ["10.9.1.1/24"]\n'
    return gateway_before(
        box, address, extra=DEAD_PEERS + options.pop("extra", ""), more=port + options.pop("more", ""), **options
    )


def _honest(box: Box, operation: str, size: int, *words: object) -> Load:
    load = box.load(
        "--reconnect",
        "--rate",
        RATE,
        *words,
        name="honest",
        operation=operation,
        size=size,
        connections=4,
        window=16,
        seconds=SECONDS,
    )
    load.wait_connected()
    return load


def _hostile(
    box: Box, operation: str, size: Union[int, str], *words: object, connections: int, window: int, lie: str = ""
) -> Load:
    return box.load(
        "--reconnect",
        "--device",
        box.device("client", HOSTILE_LINK),
        "--lcore",
        HOSTILE_CPU,
        *words,
        name="hostile",
        operation=operation,
        size=size,
        connections=connections,
        window=window,
        seconds=60,
        network=1,
        lie=lie,
    )


def _expect_served(honest: Load) -> None:
    report = honest.result()
    expect_intact(report, "honest")
    wait_s = report["latency_us"]["max"] / 1e6
    expect(report["calls"] >= RATE_MIN * RATE * SECONDS, f"the honest client got {report['calls']} answers of {RATE * SECONDS}")
    expect(wait_s <= WAIT_MAX_S, f"a call of the honest client waited {wait_s:.2f} s")


def _calls_in_flight(gateway: Gateway) -> float:
    return gateway.metrics().total("causeway_rpcrdma_credits_in_use")


def _act(
    hostile: Load,
    gateway: Gateway,
    most_expected: float,
    what: str = "calls in flight",
    held: Callable[[Gateway], float] = _calls_in_flight,
) -> None:
    """It holds so much at least, as long as it lives; then it dies without a word."""
    hostile.wait_connected()
    end = time.monotonic() + HOSTILE_S
    most = 0.0
    while time.monotonic() < end:
        most = max(most, held(gateway))
    expect(most >= most_expected, f"the hostile client had no more than {most:.0f} {what}, {most_expected:.0f} expected")
    hostile.signal(signal.SIGKILL)
    # Nobody's calls hold the views and work requests that others need.
    metrics = gateway.metrics()
    expect_equal("views that were asked for and not there", metrics.total("causeway_mempool_exhausted_total", pool="views"), 0)
    expect_equal("work requests that were asked for and not there", metrics.total("causeway_rpcrdma_no_send_work_total"), 0)


def _drill(
    box: Box,
    gateway: Gateway,
    honest: tuple[object, ...],
    hostile: tuple[object, ...],
    most_expected: float,
    *held: Any,
    **options: Any,
) -> None:
    baseline = Resources.of(gateway)
    drill = Drill(box, gateway)
    load = _honest(box, *honest)
    _act(_hostile(box, *hostile, **options), gateway, most_expected, *held)
    _expect_served(load)
    drill.expect("", moved=(("causeway_roce_retransmitted_packets_total", {}, 1),))
    expect_back_to(baseline, gateway, slack_mb=64, timeout=BACK_S)


def reply_buffers(box: Box) -> None:
    """Large replies from a TCP server are never acknowledged."""
    backend = BackendInTrouble(box)
    gateway = _two_networks(box, backend.address)
    _drill(
        box,
        gateway,
        ("source", 64_000, "--port", PORT),
        ("source", 256_000, "--port", PORT),
        64,
        connections=16,
        window=32,
        lie="no_acks",
    )
    backend.close()
    gateway.terminate()


# A gateway for many connections and few calls at once. Its replies are posted as far as the queues reach, and fill the send queues
# of WORKS_CLIENTS connections with more work requests than the calls alone would have made room for.
MANY_CONNECTIONS = "send_window_packets = 512\n[limits]\nconnections_max = 128\ncalls_in_flight_max = 1024\n"
WORKS_CLIENTS = 120
# How many it gets posted in its time depends on the machine. That the pool covers all queues is for
# ConfigEffects.EverySendQueueOfACoreMayBeFull to show.
WORKS_EXPECTED = 4096


def _works(box: Box, gateway: Gateway) -> float:
    return sum(pair["works_queued"] for pair in box.ctl_json(gateway, "qp")["queue_pairs"])


def send_works(box: Box) -> None:
    """Many small replies are never acknowledged, and each of them holds a work request: there is one for every place in every send queue."""
    backend = BackendInTrouble(box)
    gateway = _two_networks(box, backend.address, extra=MANY_CONNECTIONS, dataplane="memory_mb = 768\nrx_buffers = 65536")
    _drill(
        box,
        gateway,
        ("echo", 1000),
        ("null", 0),
        WORKS_EXPECTED,
        "work requests posted",
        lambda one: _works(box, one),
        connections=WORKS_CLIENTS,
        window=32,
        lie="no_acks",
    )
    backend.close()
    gateway.terminate()


VIEWS_EXPECTED = 1024


def views(box: Box) -> None:
    """Many replies from a TCP server are never acknowledged. Each holds views of the buffers that it came in: one as the worker gave it, and
    one for each piece that was cut out of it."""
    backend = BackendInTrouble(box)
    gateway = _two_networks(box, backend.address)

    def free() -> float:
        return gateway.metrics().total("causeway_mempool_available_objects", pool="views")

    before = free()
    _drill(
        box,
        gateway,
        ("source", 64_000, "--port", PORT),
        ("source", 6000, "--port", PORT),
        VIEWS_EXPECTED,
        "views",
        lambda _: before - free(),
        connections=48,
        window=32,
        lie="no_acks",
    )
    backend.close()
    gateway.terminate()


def read_units(box: Box) -> None:
    """The READs of large calls are never answered."""
    backend = BackendInTrouble(box)
    gateway = _two_networks(box, backend.address)
    _drill(box, gateway, ("sink", 64_000), ("sink", "3m"), 24, connections=24, window=2, lie="no_read_answers")
    backend.close()
    gateway.terminate()


SECOND_BACKEND = """
[[listener]]
name = "hostile"
port = {port}
backend = "hostile"
[[backend]]
name = "hostile"
address = "{address}"
check = "off"
"""


def worker_queues(box: Box) -> None:
    """A TCP server takes nothing more, with the calls of a client that uses every credit for large WRITEs: they fill the queue of the
    worker, buffers and views. The same worker serves another server's clients."""
    backend = BackendInTrouble(box)
    sick = BackendInTrouble(box)
    gateway = _two_networks(box, backend.address, more=SECOND_BACKEND.format(port=HOSTILE_PORT, address=sick.address))
    baseline = Resources.of(gateway)
    drill = Drill(box, gateway)
    load = _honest(box, "sink", 64_000, "--port", PORT)
    hostile = _hostile(box, "sink", 256_000, "--port", HOSTILE_PORT, connections=16, window=32)
    hostile.wait_connected()
    sick.mode = "stalled"
    _act(hostile, gateway, 64)
    _expect_served(load)
    drill.expect("", moved=(("causeway_backend_replies_total", {"backend": "tcp"}, RATE_MIN * RATE * SECONDS),))
    sick.mode = "pass"
    expect_back_to(baseline, gateway, slack_mb=64, timeout=BACK_S)
    sick.close()
    backend.close()
    gateway.terminate()


REQUESTS = 1000
START_S = 4  # of a load, until it has its port


def places(box: Box) -> None:
    """REQs from addresses that nobody has, more than there are places: a client that comes then is taken at once."""
    frames, _ = pktgen_cases.generate(box, "requests", "--server", "10.9.2.1", "--client", "10.9.2.10", "--count", REQUESTS)
    port = f'[[port]]\ndevice = "net_pcap0,rx_pcap={frames},tx_pcap={box.directory}/answers.pcap"\nmtu = 4500\naddresses = ["10.9.2.1/24"]\n'
    gateway = box.gateway(extra=port)
    gateway.start_ready()
    drill = Drill(box, gateway)
    wait_until(
        lambda: gateway.metrics().total("causeway_cm_messages_total", direction="rx", type="req") >= REQUESTS, 10, "all REQs"
    )
    start = time.monotonic()
    load = _honest(box, "echo", 1000)
    took_s = time.monotonic() - start
    expect(took_s <= START_S + WAIT_MAX_S, f"the honest client was connected after {took_s:.1f} s")
    _expect_served(load)
    wait_until(lambda: gateway.metrics().total("causeway_connections_half_open") == 0, BACK_S, "nothing of them is left")
    drill.expect("", moved=(("causeway_connections_total", {"result": "established"}, 4),))
    gateway.terminate()


CASES = [
    ("drill: a client acknowledges no reply, and others' replies find buffers", reply_buffers),
    ("drill: a client acknowledges no reply, and others' replies find work requests", send_works),
    ("drill: a client acknowledges no reply, and others' replies find views", views),
    ("drill: a client answers no READ, and others' calls are pulled", read_units),
    ("drill: a server takes nothing, and another server's clients are served", worker_queues),
    ("drill: REQs of nobody take no places", places),
]
