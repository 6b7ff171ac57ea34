"""What RDMA costs a server, four ways in one guest: the same kernel, the same client, the same files on a tmpfs.

    svcrdma   client ── rxe of the server's kernel ── knfsd
    verbs     client ── rxe of the server's kernel ── causewayd ── TCP of the loopback ── knfsd
    packet    client ── causewayd on the kernel's virtio NIC by net_af_packet, without rxe ── TCP of the loopback ── knfsd
    vfio      client ── causewayd on a virtio NIC of its own by vfio-pci ── TCP of the loopback ── knfsd

A client writes files, and reads them again; each way has its turn in each round. What is measured is the whole server, kernel
and gateway:

    server s, client s  seconds of this machine's processors for its emulation, for each GiB: its own clock runs on when this
                        machine does something else. QEMU counts instructions meanwhile, which costs all ways something.
    kernel, user        instructions of the server, for each KiB
    moved, filled       by the server, with string instructions (rep movs, rep stos), times the bytes of the files

`idle` is what it does while a client has mounted and asks for nothing: for each second, instructions in millions. An emulated
server is many times slower than a real one, and its clock is not: what it does by the clock weighs as many times more beside
the files. Hence `beyond idle`, without what it would have done anyway in the time that the files took. That is rather too little:
a core that works does not sleep and wake as an idle one does. What it polls in vain between two calls is still in it. A busy
server's cost lies between the two figures.

The same processor does not make it the same for all ways, since QEMU emulates some instructions far slower than others.
PCLMULQDQ is computed bit by bit, and both sides use it: the kernel's driver for CRC-32 is crc32-pclmul, causewayd has ISA-L's
function. With ERMS the kernel copies and fills byte by byte, which takes QEMU as long as many instructions, and a real
processor next to nothing; svcrdma fills most. So the usual processor here has no ERMS, and the kernel does that eight bytes at
a time. Instructions do not know the difference.
"""

import statistics
import struct
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from lab import network
from lab.daemon import LabError, wait_until
from lab.gateway_guest import GatewayGuest
from lab.guest import CPU, PCI_ADDRESS, Guest, Nic
from lab.rig import MOUNT_POINT
from lab.sandbox import RUN

MTU = 4500  # path MTU 4096
LISTEN = 20050  # the kernel's server has 20049
ADDRESS = "10.9.0.5"  # of causewayd on a NIC: roce0 of the server's kernel has another
MIB = 64
ROUNDS = 3
IDLE_SECONDS = 5
DEVICE = "net_af_packet0,iface=roce0,framesz=8192,blocksz=65536,framecnt=256"
WITHOUT_ERMS = f"{CPU},-erms"

# What is measured: how much of it is one in the table, for each MiB of the files and for each second.
UNITS = {
    "server s": (1 / 1024, 1),
    "client s": (1 / 1024, 1),
    "kernel": (2**10, 1e6),
    "user": (2**10, 1e6),
    "moved": (2**20, 2**20),
    "filled": (2**20, 2**20),
}


@dataclass
class Way:
    name: str
    server: str  # whom the client mounts
    port: int
    begin: Callable[[GatewayGuest], None]
    end: Callable[[GatewayGuest], None]
    figures: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)


def _nothing(_server: GatewayGuest) -> None:
    pass


def _ways() -> list[Way]:
    own = f'addresses = ["{ADDRESS}/24"]'

    def begin(device: str = "", port: str = "", rdma: str = "") -> Callable[[GatewayGuest], None]:
        def on(server: GatewayGuest) -> None:
            server.serve_by(device, port, rdma)
            server.launch()

        return on

    def end(server: GatewayGuest) -> None:
        server.end()

    def end_without_rxe(server: GatewayGuest) -> None:
        server.end()
        server.guest.check("rxe_up")

    return [
        Way("svcrdma", network.GATEWAY, 20049, _nothing, _nothing),
        Way("verbs", network.GATEWAY, LISTEN, begin(rdma="rxe0"), end),
        Way("packet", ADDRESS, LISTEN, begin(DEVICE, own), end_without_rxe),
        Way("vfio", ADDRESS, LISTEN, begin(PCI_ADDRESS, own), end),
    ]


class Meter:
    """What the two have used since their start, and what the server has executed."""

    def __init__(self, server: Guest, client: Guest, counts: Path) -> None:
        self._server, self._client, self._counts = server, client, counts
        self._start = self._used()

    def _used(self) -> tuple[float, ...]:
        return (
            time.monotonic(),
            self._server.cpu_seconds(),
            self._client.cpu_seconds(),
            *struct.unpack("<4Q", self._counts.read_bytes()),
        )

    def lap(self) -> list[float]:
        """Since the last lap: seconds, and what UNITS has."""
        before, self._start = self._start, self._used()
        return [now - then for now, then in zip(self._start, before)]


def _idle(way: Way, meter: Meter) -> list[float]:
    """For each second."""
    meter.lap()
    time.sleep(IDLE_SECONDS)
    seconds, *used = meter.lap()
    rates = [value / seconds for value in used]
    for name, rate in zip(UNITS, rates):
        way.note(f"idle {name}", rate / UNITS[name][1])
    return rates


def _timed(way: Way, what: str, script: str, client: Guest, meter: Meter, idle: list[float]) -> None:
    meter.lap()
    client.check(script, 300)
    seconds, *used = meter.lap()
    way.note(f"{what} MiB/s", MIB / seconds)
    for name, value, rate in zip(UNITS, used, idle):
        way.note(f"{what} {name}", value / MIB / UNITS[name][0])
        way.note(f"{what} {name}, beyond idle", (value - rate * seconds) / MIB / UNITS[name][0])


def _turn(way: Way, client: Guest, server: GatewayGuest, meter: Meter) -> None:
    way.begin(server)
    path = f"{MOUNT_POINT}/figures"
    options = f"vers=4.1,proto=rdma,port={way.port}"
    wait_until(
        lambda: client.run(f"/sbin/mount.nfs {way.server}:/ {MOUNT_POINT} -o {options}", 60)[0] == 0, 120, way.name, interval=1
    )
    idle = _idle(way, meter)
    _timed(way, "write", f"dd if=/dev/zero of={path} bs=1M count={MIB} conv=fsync 2>/dev/null", client, meter, idle)
    client.check("drop_caches")
    _timed(way, "read", f"dd if={path} of=/dev/null bs=1M 2>/dev/null", client, meter, idle)
    client.check(f"rm {path} && umount {MOUNT_POINT}", 60)
    way.end(server)


def _table(ways: list[Way], title: str) -> str:
    """A line for each figure, with the ways side by side: median and extremes."""
    lines = [f"# {title}, median of {ROUNDS} [extremes]", f"# {'':28}" + "".join(f"{way.name:>24}" for way in ways)]
    for name in ways[0].figures:
        row = f"# {name:28}"
        for way in ways:
            values = [statistics.median(way.figures[name]), min(way.figures[name]), max(way.figures[name])]
            median, least, most = (f"{value:.0f}" if max(values) >= 100 else f"{value:.2f}" for value in values)
            row += f"{f'{median} [{least} {most}]':>24}"
        lines.append(row)
    return "\n".join(lines)


def _plugin() -> tuple[Path, Path]:
    """Of QEMU, which counts: the plugin, and the file with what it has counted."""
    plugin, source = RUN / "guest_instructions.so", Path(__file__).with_name("guest_instructions.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", str(plugin), str(source)], check=True)
    return plugin, RUN / "guest_instructions"


def figures(cpu: str = WITHOUT_ERMS) -> Callable[[Path], None]:
    """Prints a table: throughput, and what the files cost. The server's processor is `cpu`."""

    def measure(logs: Path) -> None:
        network.add_bridge("roce", MTU)
        network.add_tap("roce-guest", MTU, bridge="roce")
        client = Guest(Nic("tap", MTU, tap="roce-guest"), logs)
        plugin, counts = _plugin()
        server = GatewayGuest(
            logs,
            MTU,
            rdma="rxe0",
            number=1,
            backend="127.0.0.1:2049",
            listen=LISTEN,
            memory_mb=1536,
            plugin="net_af_packet net_virtio",
            model="virtio",
            beside="roce-beside",
            cpu=cpu,
            words=("-plugin", f"{plugin},to={counts}"),
        )
        try:
            server.start()
            server.guest.check("nfsd_up /export", 240)
            server.end()
            client.start()
            ways, meter = _ways(), Meter(server.guest, client, counts)
            for _ in range(ROUNDS):
                for way in ways:
                    _turn(way, client, server, meter)
            table = _table(ways, f"-cpu {cpu}, files of {MIB} MiB")
            print(table, flush=True)
            (logs / "figures.log").write_text(table + "\n")
            if any(len(values) != ROUNDS for way in ways for values in way.figures.values()):
                raise LabError("not every way had all its turns")
        finally:
            client.stop()
            server.stop()
            for link in ("roce-guest", "roce-server", "roce-beside", "roce"):
                network.remove(link)

    return measure
