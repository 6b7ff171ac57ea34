"""Several poll cores: every core serves, whichever received the frame, and all that is said of the gateway is said of all."""

import time

from harness import CPUS, Box, Gateway, Skip, expect, expect_equal
from memif_peer import MemifPeer

CONNECTIONS = 12


def _two_cores(box: Box, **options: str) -> Gateway:
    if len(CPUS) < 2:
        raise Skip("takes two CPUs")
    gateway = box.gateway(cpus=f"{CPUS[0]}, {CPUS[1]}", main_cpu=str(CPUS[0]), **options)
    gateway.start_ready()
    return gateway


def _by_core(gateway: Gateway, name: str) -> list[float]:
    metrics = gateway.metrics()
    return [metrics.total(name, lcore=str(cpu)) for cpu in CPUS[:2]]


def both_serve(box: Box) -> None:
    gateway = _two_cores(box)
    for operation, size in (("echo", 64), ("source", 1 << 20), ("sink", 1 << 20)):
        load = box.load(operation=operation, size=size, connections=CONNECTIONS, window=4, seconds=3)
        load.wait_connected()
        time.sleep(1)
        connections = _by_core(gateway, "causeway_lcore_connections")
        expect_equal("connections", sum(connections), CONNECTIONS)
        # By chance all of them on one core: once in 2048 runs.
        expect(min(connections) > 0, f"connections by core: {connections}")
        rows = box.ctl(gateway, "connections", "--json")
        for cpu in CPUS[:2]:
            expect(f'"lcore": {cpu}' in rows or f'"lcore":{cpu}' in rows, f"no connection of CPU {cpu} in {rows}")
        report = load.result()
        expect_equal("wrong answers", report["wrong"], 0)
        expect_equal("connections lost", report["lost"], 0)
    # A memif link has one queue: what is for the other core is handed over, and what that core sends goes back the same way.
    handed = _by_core(gateway, "causeway_lcore_frames_handed_total")
    expect(handed[0] > 0 and handed[1] == 0, f"frames handed over by core: {handed}")
    expect(min(_by_core(gateway, "causeway_lcore_polls_total")) > 0, "a core that never turned")
    gateway.terminate()


def one_limit(box: Box) -> None:
    gateway = _two_cores(box, listener="connections_max = 5")
    load = box.load(connections=8, seconds=1)
    expect_equal("exit status of the load", load.finish(30), 1)
    expect("5 of 8 connections" in load.output(), load.tail())
    expect_equal("refused by the limit", gateway.metrics().total("causeway_connections_refused_total", reason="limit"), 3)
    gateway.terminate()


def link_flaps(box: Box) -> None:
    """The driver takes its rings away from both cores."""
    gateway = _two_cores(box, idle="spin")
    end = time.monotonic() + 4
    links = 0
    while time.monotonic() < end:
        with MemifPeer(box.directory / "link.sock"):
            links += 1
    expect(links > 50, f"only {links} links came about")
    expect_equal("wrong answers of a load afterwards", box.load(connections=4, seconds=1).result()["wrong"], 0)
    gateway.terminate()


def killed_load(box: Box) -> None:
    gateway = _two_cores(box)
    load = box.load(operation="source", size=262144, connections=CONNECTIONS, seconds=60)
    load.wait_connected()
    time.sleep(0.5)
    load.kill()
    report = box.load(connections=CONNECTIONS, seconds=2).result()
    expect_equal("wrong answers", report["wrong"], 0)
    gateway.terminate()


CASES = [
    ("two poll cores both serve, and hand over what is for the other", both_serve),
    ("two poll cores keep one limit of connections", one_limit),
    ("a memif link that comes and goes costs two poll cores nothing", link_flaps),
    ("two poll cores end the connections of a killed client, and serve the next", killed_load),
]
