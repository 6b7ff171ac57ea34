"""How long a writing client stands still when its gateway is restarted, upgraded or killed.

The client notes the time of every write that is on the server's disk (64 KiB, fsync); the longest gap between two of them is the
pause that an application sees. What it is made of is told by the gateway: how long it was away, and when the client was back.
The figures go to stalls.json beside the logs; ../stalls.py makes the tables of them.
"""

import contextlib
import hashlib
import json
import time
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Callable, Iterator

from lab import image
from lab.daemon import LabError, wait_until
from lab.ganesha import Ganesha
from lab.gateway import Gateway
from lab.rig import Rig

WRITE_BYTES = 65536
HUGEPAGES = Path("/proc/sys/vm/nr_hugepages")
HUGEPAGES_WANTED = 300  # 2 MiB each
BEFORE = 20  # writes that are done before the trouble
AFTER = 20
LIMIT_S = 240

# A write is on the server's disk when dd ends; the kernel's uptime is what no step of a clock moves.
WRITER = r"""
head -c {bytes} /dev/urandom >/tmp/stall.block
: >/tmp/stall.times
rm -f /tmp/stall.stop
count=0
while [ ! -e /tmp/stall.stop ]; do
  dd if=/tmp/stall.block of={path} bs={bytes} count=1 seek=$((count % 64)) conv=notrunc,fsync 2>/dev/null || exit 1
  count=$((count + 1))
  cut -d' ' -f1 /proc/uptime >>/tmp/stall.times
done
"""


@dataclass(frozen=True)
class Stall:
    """Seconds, but for the names."""

    what: str  # of TROUBLES
    nfs: str
    options: str  # of the mount, beyond version and transport
    wire: str
    pause: float  # the writer's longest
    usual: float  # its median gap
    drain: float  # from the request to drain until no client was connected
    away: float  # from the signal until the next gateway was ready
    connect: float  # from then until the client was connected
    resume: float  # from then until a write of its had been answered
    linux: str = ""
    date: str = ""


def upgrade(gateway: Gateway) -> tuple[float, float]:
    """As deploy/GUIDE.md says: drained, ended, and the next one started. Seconds of the drain, and of the absence."""
    start = time.monotonic()
    gateway.ctl("drain", "start", "--wait", "--timeout", "60")
    drained = time.monotonic()
    gateway.terminate()
    gateway.start()
    return drained - start, time.monotonic() - drained


def restart(gateway: Gateway) -> tuple[float, float]:
    start = time.monotonic()
    gateway.terminate()
    gateway.start()
    return 0.0, time.monotonic() - start


def kill(gateway: Gateway) -> tuple[float, float]:
    start = time.monotonic()
    gateway.kill()
    gateway.start()
    return 0.0, time.monotonic() - start


def hand_over(gateway: Gateway) -> tuple[float, float]:
    """causewayctl restart: the next gateway has the client's connection."""
    start = time.monotonic()
    gateway.ctl("restart")
    return 0.0, time.monotonic() - start


TROUBLES: dict[str, Callable[[Gateway], tuple[float, float]]] = {
    "hand-over": hand_over,  # memory from hugepages
    "hand-over-4k": hand_over,
    "upgrade": upgrade,
    "restart": restart,
    "kill": kill,
}


@contextlib.contextmanager
def _memory_for(what: str, gateway: Gateway) -> Iterator[None]:
    """Most of the time that a gateway takes to start goes into memory, when it has no hugepages."""
    if what != "hand-over":
        yield
        return
    before = HUGEPAGES.read_text()
    HUGEPAGES.write_text(f"{max(int(before), HUGEPAGES_WANTED)}\n")
    try:
        gateway.use_hugepages(True)
        restart(gateway)
        yield
    finally:
        gateway.use_hugepages(False)
        restart(gateway)
        HUGEPAGES.write_text(before)


def stall(what: str, version: str, options: str = "") -> Callable[[Rig], None]:
    def body(rig: Rig) -> None:
        assert rig.gateway
        with _memory_for(what, rig.gateway):
            measure(rig, rig.gateway)

    def measure(rig: Rig, gateway: Gateway) -> None:
        guest = rig.guest
        at = f"/tmp/stall{version}"
        guest.check(f"rm -f /tmp/stall.times; mkdir -p {at} && {rig.mount_command(version, at=at, more=options)}", 60)
        name = f"stalled-{what}"
        job = guest.run_aside(WRITER.format(bytes=WRITE_BYTES, path=f"{at}/{name}"), LIMIT_S)
        try:
            wait_until(lambda: len(_times(rig)) >= BEFORE, 60, "writes before the trouble", interval=0.5)
            drain, away = TROUBLES[what](gateway)
            ready = time.monotonic()
            wait_until(lambda: _connections(gateway) > 0, LIMIT_S, "the client is back", interval=0.05)
            connected = time.monotonic()
            written = _written(gateway)
            wait_until(lambda: _written(gateway) > written, LIMIT_S, "writes after the trouble", interval=0.05)
            resumed = time.monotonic()
            count = len(_times(rig))
            wait_until(lambda: len(_times(rig)) >= count + AFTER, 60, "many writes after the trouble", interval=0.5)
        finally:
            guest.run("touch /tmp/stall.stop")
        job.result()
        times = _times(rig)
        gaps = sorted(later - earlier for earlier, later in zip(times, times[1:]))
        _compare(rig, name)
        guest.check(f"rm {at}/{name} && umount {at}", 60)
        found = Stall(
            what,
            version,
            options.strip(","),
            rig.wire.name,
            round(gaps[-1], 2),
            round(gaps[len(gaps) // 2], 2),
            round(drain, 2),
            round(away, 2),
            round(connected - ready, 2),
            round(resumed - connected, 2),
            image.kernel_release(),
            datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        )
        print(
            f"   longest pause {found.pause:.1f} s, else {found.usual:.2f} s; drain {found.drain:.1f}, away {found.away:.1f}, then"
            f" {found.connect:.1f} until connected, {found.resume:.1f} until a write",
            flush=True,
        )
        _keep(rig.logs.parent / "stalls.json", found)

    return body


def bodies() -> list[tuple[str, Callable[[Rig], None]]]:
    """By name: each trouble with either kind of NFS, and the silent one with a mount that is less patient than usual."""
    found = [(f"stall-{what}-nfs{version}", stall(what, version)) for what in TROUBLES for version in ("3", "4.1")]
    return [*found, *((f"stall-kill-timeo50-nfs{version}", stall("kill", version, ",timeo=50")) for version in ("3", "4.1"))]


def _times(rig: Rig) -> list[float]:
    return [float(word) for word in rig.guest.run("cat /tmp/stall.times 2>/dev/null")[1].split()]


def _connections(gateway: Gateway) -> float:
    return gateway.metrics().total("causeway_connections")


def _written(gateway: Gateway) -> float:
    """Bytes that came by Read chunks: the data of WRITEs."""
    return gateway.metrics().total("causeway_rpcrdma_chunk_bytes_total", list="read")


def _compare(rig: Rig, name: str) -> None:
    """What the server has consists of the block alone."""
    assert isinstance(rig.backend, Ganesha)
    block = rig.guest.check("md5sum </tmp/stall.block").split()[0]
    data = (rig.backend.export / name).read_bytes()
    found = {hashlib.md5(data[at : at + WRITE_BYTES]).hexdigest() for at in range(0, len(data), WRITE_BYTES)}
    if found != {block}:
        raise LabError(f"{name} is not what was written: blocks {found}, wanted {block}")


def _keep(path: Path, stall_: Stall) -> None:
    known = json.loads(path.read_text()) if path.exists() else []
    same = ("what", "nfs", "options", "wire")
    new = asdict(stall_)
    known = [each for each in known if any(each[key] != new[key] for key in same)]
    path.write_text(json.dumps([*known, new], indent=1) + "\n")
