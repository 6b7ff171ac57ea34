"""What RDMA costs a server, three ways in one guest: the same kernel, the same client, the same files on a tmpfs.

    svcrdma   client ── rxe of the server's kernel ── knfsd
    verbs     client ── rxe of the server's kernel ── causewayd ── TCP of the loopback ── knfsd
    roce      client ── causewayd on the server's virtio NIC, without rxe ── TCP of the loopback ── knfsd

A client writes files, and reads them again; each way has its turn in each round. The processor time is what this machine spent on the
emulation of the whole server, kernel and gateway: its own clock runs on when this machine does something else.
"""

import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from lab import network
from lab.daemon import LabError, wait_until
from lab.gateway_guest import GatewayGuest
from lab.guest import Guest, Nic
from lab.rig import MOUNT_POINT

MTU = 4500  # path MTU 4096
LISTEN = 20050  # the kernel's server has 20049
ADDRESS = "10.9.0.5"  # of causewayd on the NIC: roce0 of the server's kernel has another
MIB = 64
ROUNDS = 3
DEVICE = "net_af_packet0,iface=roce0,framesz=8192,blocksz=65536,framecnt=256"


@dataclass
class Way:
    name: str
    server: str  # whom the client mounts
    port: int
    begin: Callable[[GatewayGuest], None]
    end: Callable[[GatewayGuest], None]
    figures: dict[str, list[float]] = field(default_factory=dict)

    def note(self, what: str, seconds: float, server: float, client: float) -> None:
        for name, value in (("MiB/s", MIB / seconds), ("server", server * 1024 / MIB), ("client", client * 1024 / MIB)):
            self.figures.setdefault(f"{what} {name}", []).append(value)


def _nothing(_server: GatewayGuest) -> None:
    pass


def _ways() -> list[Way]:
    def on_rxe(server: GatewayGuest) -> None:
        server.serve_by(rdma="rxe0")
        server.launch()

    def on_nic(server: GatewayGuest) -> None:
        server.serve_by(DEVICE, f'addresses = ["{ADDRESS}/24"]')
        server.launch()

    def end(server: GatewayGuest) -> None:
        server.end()

    def end_on_nic(server: GatewayGuest) -> None:
        server.end()
        server.guest.check("rxe_up")

    return [
        Way("svcrdma", network.GATEWAY, 20049, _nothing, _nothing),
        Way("verbs", network.GATEWAY, LISTEN, on_rxe, end),
        Way("roce", ADDRESS, LISTEN, on_nic, end_on_nic),
    ]


def _timed(way: Way, what: str, script: str, client: Guest, server: Guest) -> None:
    before = time.monotonic(), server.cpu_seconds(), client.cpu_seconds()
    client.check(script, 300)
    after = time.monotonic(), server.cpu_seconds(), client.cpu_seconds()
    way.note(what, *(now - then for now, then in zip(after, before)))


def _turn(way: Way, client: Guest, server: GatewayGuest) -> None:
    way.begin(server)
    path = f"{MOUNT_POINT}/figures"
    options = f"vers=4.1,proto=rdma,port={way.port}"
    wait_until(
        lambda: client.run(f"/sbin/mount.nfs {way.server}:/ {MOUNT_POINT} -o {options}", 60)[0] == 0, 120, way.name, interval=1
    )
    _timed(way, "write", f"dd if=/dev/zero of={path} bs=1M count={MIB} conv=fsync 2>/dev/null", client, server.guest)
    client.check("drop_caches")
    _timed(way, "read", f"dd if={path} of=/dev/null bs=1M 2>/dev/null", client, server.guest)
    client.check(f"rm {path} && umount {MOUNT_POINT}", 60)
    way.end(server)


def _table(ways: list[Way]) -> str:
    columns = [f"{what} {name}" for what in ("write", "read") for name in ("MiB/s", "server", "client")]
    lines = [f"# {'median of ' + str(ROUNDS):14}" + "".join(f"{column:>14}" for column in columns)]
    for way in ways:
        lines.append(f"# {way.name:14}" + "".join(f"{statistics.median(way.figures[column]):14.1f}" for column in columns))
        spread = (f"{min(way.figures[column]):.1f}-{max(way.figures[column]):.1f}" for column in columns)
        lines.append(f"# {'':14}" + "".join(f"{text:>14}" for text in spread))
    return "\n".join(lines)


def figures(logs: Path) -> None:
    """Prints a table: throughput, and seconds of this machine's processors for each GiB."""
    network.add_bridge("roce", MTU)
    network.add_tap("roce-guest", MTU, bridge="roce")
    client = Guest(Nic("tap", MTU, tap="roce-guest"), logs)
    server = GatewayGuest(
        logs, MTU, rdma="rxe0", number=1, backend="127.0.0.1:2049", listen=LISTEN, memory_mb=1536, plugin="net_af_packet"
    )
    try:
        server.start()
        server.guest.check("nfsd_up /export", 60)
        server.end()
        client.start()
        ways = _ways()
        for _ in range(ROUNDS):
            for way in ways:
                _turn(way, client, server)
        print(_table(ways), flush=True)
        (logs / "figures.log").write_text(_table(ways) + "\n")
        if any(len(values) != ROUNDS for way in ways for values in way.figures.values()):
            raise LabError("not every way had all its turns")
    finally:
        client.stop()
        server.stop()
        for link in ("roce-guest", "roce-server", "roce"):
            network.remove(link)
