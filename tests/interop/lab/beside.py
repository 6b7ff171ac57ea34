"""Cases in which the gateway and the kernel share one address: RDMA is the gateway's, everything else the kernel's.

An NFSv3 client asks rpcbind and mountd at the address that it mounts from. Where a gateway has the address for itself they are not
there, and the mount options have to name another one (mountaddr=); here they are, over the kernel's TCP.
"""

import re
import subprocess
from typing import Callable

from lab import network, workload
from lab.daemon import LabError, wait_until
from lab.ganesha import MOUNT_PORT, NFS_PORT
from lab.metrics import Metrics
from lab.rig import Rig, Wire

WIRES = (Wire("gateway", "af_xdp", 2048), Wire("gateway", "exception", 4096))


def _program_of_link() -> str:
    """The name of the XDP program on the shared interface, "" when there is none."""
    shown = subprocess.run(
        ["ip", "-details", "link", "show", "dev", network.SHARED], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"prog/xdp id \d+ (?:name (\S+) )?", shown)
    return (found[1] or "unnamed") if found else ""


def _ping(rig: Rig) -> None:
    # -A: the next one when the answer is there, not a second later. 1900 bytes fit the MTU of both wires; 5000 do not: fragments are
    # the kernel's too.
    for size in (56, 1900, 5000):
        rig.guest.check(f"ping -A -c 3 -W 5 -s {size} {network.GATEWAY} && ping -A -c 3 -W 5 -s {size} {network.GATEWAY_V6}", 60)


def _kernel_answers(rig: Rig) -> None:
    """ARP, neighbour discovery, ping and TCP of the shared address, whether there is a gateway or not."""
    rig.guest.check("/sbin/ip neighbour flush dev roce0", 10)
    _ping(rig)
    for port in (111, MOUNT_PORT, NFS_PORT):
        rig.guest.check(f"nc -w 5 -z {network.GATEWAY} {port} || nc -w 5 {network.GATEWAY} {port} </dev/null", 20)


def gateway_was_silent(metrics: Metrics) -> None:
    for what in ("arp", "nd", "icmp"):
        name = f"causeway_port_{what}_packets_total"
        if metrics.total(name) != 0:
            raise LabError(f"the gateway answered for the kernel: {name} is {metrics.by_label(name, 'direction')}")


def one_address(v6: bool) -> Callable[[Rig], None]:
    """NFSv3 mounted from the shared address, nothing but the RDMA port named, and the whole workload; pings all the while."""

    def body(rig: Rig) -> None:
        assert rig.gateway
        _kernel_answers(rig)
        before = rig.gateway.metrics()
        with rig.mounted("3", v6):
            pings = rig.guest.run_aside(f"ping -c 20 -W 5 {network.GATEWAY}", 120)
            workload.everything(rig, f"beside{'v6' if v6 else ''}", workload.SMALL + workload.MEDIUM)
            pings.result()
            mounted = rig.guest.check("grep ' /mnt ' /proc/mounts")
            server = network.GATEWAY_V6 if v6 else network.GATEWAY
            if f"mountaddr={server}" not in mounted:
                raise LabError(f"mountd was asked elsewhere: {mounted.strip()}")
        after = rig.gateway.metrics()
        after.lint()
        gateway_was_silent(after)
        for name in ("causeway_rpcrdma_errors_total", "causeway_port_tx_dropped_total", "causeway_port_rx_missed_total"):
            if after.total(name) != 0:
                raise LabError(f"{name} is {after.total(name):g}")
        if after.total("causeway_roce_packets_total") <= before.total("causeway_roce_packets_total"):
            raise LabError("the gateway saw no RoCE packet")

    return body


def detach(rig: Rig) -> None:
    """The program leaves the interface with the gateway, in order or killed, and the kernel answers on; the next gateway takes over."""
    assert rig.gateway
    for end in (rig.gateway.terminate, rig.gateway.kill):
        if _program_of_link() != "causeway_xdp":
            raise LabError(f"the interface has the XDP program {_program_of_link()!r} while the gateway runs")
        end()
        wait_until(lambda: not _program_of_link(), 5, "an interface without XDP program")
        _kernel_answers(rig)
        rig.gateway.start()
    _kernel_answers(rig)
    with rig.mounted("3"):
        workload.changes(rig, "detach")
    rig.backend.remove_tree("detach")
