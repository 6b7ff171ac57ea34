"""causewayd on a NIC by vfio-pci, behind an IOMMU, with two poll cores that have a queue each where the device has two: which frames
came to their core by themselves, the cable, and long frames.

    client guest 10.9.0.2 ── bridge roce ── gateway guest: causewayd 10.9.0.1 on the NIC ── control network ── Ganesha
"""

from lab import network
from lab.daemon import LabError, wait_until
from lab.gateway_guest import GatewayGuest
from lab.metrics import Metrics
from lab.rig import MOUNT_POINT, Rig

MODELS = ("e1000e", "vmxnet3", "virtio")
# How frames come to their core: e1000e's driver deals by nothing, though it has two queues; vmxnet3's by addresses alone, and QEMU's
# device puts all frames into the first queue; virtio's by UDP ports, too.
STEERING = {"e1000e": "software", "vmxnet3": "rss", "virtio": "rss"}
VERSIONS = ("3", "4.0", "4.1", "4.2")  # clients of their own to the server: a connection each
FILES = 4
FILE_BYTES = 1_000_003
LOST = (
    "causeway_port_rx_errors_total",
    "causeway_port_rx_missed_total",
    "causeway_port_rx_no_mbuf_total",
    "causeway_port_tx_dropped_total",
    "causeway_lcore_frames_not_handed_total",
    "causeway_rpcrdma_errors_total",
)


def _server(rig: Rig) -> GatewayGuest:
    assert isinstance(rig.gateway, GatewayGuest)
    return rig.gateway


def _nothing_lost(before: Metrics, after: Metrics) -> None:
    if lost := [f"{name} rose by {rise:g}" for name in LOST if (rise := after.total(name) - before.total(name)) != 0]:
        raise LabError("; ".join(lost))


def _rise(before: Metrics, after: Metrics, name: str) -> dict[str, float]:
    was = before.by_label(name, "lcore")
    return {core: now - was.get(core, 0) for core, now in after.by_label(name, "lcore").items()}


def churn(rig: Rig, places: dict[str, str]) -> None:
    """Files are written by all mounts of mounted_beside(), and read again."""
    for version, at in places.items():
        rig.guest.check(f"churn_write {at}/cores{version} {FILES} {FILE_BYTES}", 300)
        rig.guest.check(f"churn_check {at}/cores{version}", 200)


def cores(rig: Rig) -> None:
    """Several connections of one client, on both cores. Prints what each core took from its queue, and what it gave the other: all other
    frames were dealt to their core by the device."""
    server = _server(rig)
    before = server.metrics()
    (steering,) = {labels["steering"] for name, labels, _ in before.samples() if name == "causeway_port_info"}
    if steering != STEERING[rig.wire.model]:
        raise LabError(f"frames come to their core by {steering}")
    with rig.mounted_beside(VERSIONS) as places:
        churn(rig, places)
        after = server.metrics()
        after.lint()
        (rig.logs / "operator.log").write_text(
            f"{server.ctl('status')}\n{server.ctl('connections')}\n{server.doctor()}\n{after.text}"
        )
    served = after.by_label("causeway_lcore_connections", "lcore")
    if "link is down" in server.log():
        raise LabError("the gateway says that its link is down, and nobody touched the cable")
    if sorted(served.values()) != [len(VERSIONS) / 2] * 2:
        raise LabError(f"{len(VERSIONS)} connections are served by cores as {served}")
    received = _rise(before, after, "causeway_lcore_frames_received_total")
    handed = _rise(before, after, "causeway_lcore_frames_handed_total")
    print(
        f"   {steering}: core 1 took {received['1']:.0f} frames from its queue and handed over {handed['1']:.0f},"
        f" core 2 took {received['2']:.0f} and handed over {handed['2']:.0f}",
        flush=True,
    )
    _nothing_lost(before, after)
    for version in VERSIONS:
        rig.backend.remove_tree(f"cores{version}")


def pull_cable(rig: Rig) -> None:
    server = _server(rig)
    server.guest.set_link(False)
    wait_until(
        lambda: server.metrics().total("causeway_port_up") == 0, 30, "the gateway sees that its link is down", interval=0.5
    )


def put_cable_back(rig: Rig) -> None:
    server = _server(rig)
    server.guest.set_link(True)
    wait_until(lambda: server.metrics().total("causeway_port_up") == 1, 30, "the gateway sees that its link is up", interval=0.5)


def jumbo(rig: Rig) -> None:
    """Frames as long as the MTU come and go; files are what they were."""
    before = _server(rig).metrics()
    for address in (network.GATEWAY, network.GATEWAY_V6):
        rig.guest.check(f"ping -A -c 3 -W 5 -s 8900 {address}", 60)
    with rig.mounted("4.1"):
        rig.guest.check(f"churn_write {MOUNT_POINT}/jumbo {FILES} {FILE_BYTES}", 300)
        rig.guest.check(f"churn_check {MOUNT_POINT}/jumbo", 200)
    _nothing_lost(before, _server(rig).metrics())
    rig.backend.remove_tree("jumbo")
