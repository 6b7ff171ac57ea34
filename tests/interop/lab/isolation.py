"""The gateway and the kernel at one address by rules of DPDK's driver (rte_flow isolation), as on a NIC that keeps its kernel driver: here
net_tap in front of an interface (remote=), whose rules are flower filters of tc. They take another kernel than many a test machine's,
so the gateway runs in a guest of its own.

    client guest 10.9.0.2 ── bridge roce ── gateway guest: roce0 10.9.0.3, the kernel's; causewayd by net_tap ── control network ── Ganesha
"""

from pathlib import Path

from lab import gateway, network
from lab.beside import gateway_was_silent
from lab.daemon import LabError, wait_until
from lab.ganesha import MOUNT_PORT, Ganesha
from lab.gateway_guest import GatewayGuest, in_front_of
from lab.guest import Guest
from lab.rig import MOUNT_POINT

MTU = 1500  # net_tap sends no longer frames
ADDRESSES = ("10.9.0.3", "fd09::3")  # of roce0 in the gateway's guest
FILES = 20
FILE_BYTES = 300_003


def _kernel_answers(client: Guest) -> None:
    """ARP, neighbour discovery, ping and TCP, whether there is a gateway or not."""
    client.check("/sbin/ip neighbour flush dev roce0", 10)
    for address in ADDRESSES:
        for size in (56, 1400, 5000):
            client.check(f"ping -A -c 3 -W 5 -s {size} {address}", 60)
        client.check(f"nc -w 5 -z {address} 23 || nc -w 5 {address} 23 </dev/null", 20)  # telnetd


def _redirected(server: GatewayGuest) -> list[str]:
    """The filters of the interface that send packets to the gateway, one text each."""
    shown = server.guest.check("/sbin/tc filter show dev roce0 parent ffff: 2>/dev/null || true")
    return [text for text in shown.split("filter ") if "Redirect" in text]


def _copy(client: Guest, backend: Ganesha, version: str, v6: bool = False) -> None:
    """Files are written and read by RDMA, and are what the server has."""
    directory = f"isolation{version}{'v6' if v6 else ''}"
    server, proto = (f"[{ADDRESSES[1]}]", "rdma6") if v6 else (ADDRESSES[0], "rdma")
    mountd = f",nolock,mountaddr={network.CONTROL_HOST},mountport={MOUNT_PORT},mountproto=tcp" if version == "3" else ""
    client.check(f"/sbin/mount.nfs {server}:/ {MOUNT_POINT} -o vers={version},proto={proto},port={gateway.PORT}{mountd}", 90)
    client.check(f"rm -rf {MOUNT_POINT}/{directory} && churn_write {MOUNT_POINT}/{directory} {FILES} {FILE_BYTES}", 300)
    client.check(f"churn_check {MOUNT_POINT}/{directory}", 120)
    written = {name: digest for digest, name in (line.split() for line in client.check("cat /tmp/churn.SUMS").splitlines())}
    if len(written) != FILES or written != backend.digests(directory):
        raise LabError("client and server disagree")
    client.check(f"umount {MOUNT_POINT}", 60)


def isolation(logs: Path) -> None:
    """A Linux client mounts from the address that the other machine's kernel has, writes and reads; that kernel answers all the while, and
    goes on when the gateway has been killed or has ended."""
    server = GatewayGuest(logs, MTU, "net_tap0,iface=cwt,remote=roce0", "beside_kernel = true", modules="tun")
    with in_front_of(server, logs, MTU) as (backend, client):
        filters = _redirected(server)
        if len(filters) != len(ADDRESSES) or any("dst_port 4791" not in text for text in filters):
            raise LabError(f"the interface has these filters: {filters}")
        _kernel_answers(client)
        for version, v6 in (("4.1", False), ("4.1", True), ("3", False)):
            pings = client.run_aside(f"ping -c 10 -W 5 {ADDRESSES[v6]}", 120)
            _copy(client, backend, version, v6)
            pings.result()
        _kernel_answers(client)
        metrics = server.metrics()
        metrics.lint()
        gateway_was_silent(metrics)
        received = metrics.by_label("causeway_port_packets_total", "direction")["rx"]
        roce = metrics.by_label("causeway_roce_packets_total", "direction")["rx"]
        if roce == 0 or received != roce:
            raise LabError(f"{received:g} packets came to the gateway, {roce:g} of them RoCE")
        server.kill()
        _kernel_answers(client)  # the filters are there, and lead nowhere
        server.launch()
        _kernel_answers(client)
        _copy(client, backend, "3")
        server.end()
        wait_until(lambda: not _redirected(server), 10, "an interface without the gateway's filters")
        _kernel_answers(client)
