"""Mounts that come and go, with I/O on all of them at once: the Linux client mounts each NFS version, writes a file, unmounts, mounts
again, reads the file back from the server and unmounts, over and over.

Each mount is a connection of its own. What the gateway holds is sampled all the while, and is back where it was in the end.
"""

import time
from dataclasses import asdict, dataclass
from typing import Callable

from lab.daemon import LabError, wait_until
from lab.guest import Aside
from lab.process_memory import resident_mb
from lab.rig import Rig

VERSIONS = ("3", "4.0", "4.1", "4.2")  # clients of their own to the server, so that none shares another's connection
WARM_TURNS = 2
FILE_BYTES = 300_007
# Packet buffers that may be under way in a device's rings, and what the allocator keeps of what it had.
BUFFERS_UNDER_WAY = 64
SLACK_MB = 8

TURNS = r"""
for turn in $(seq {turns}); do
  {mount} || {{ echo "mount {version}, turn $turn"; exit 1; }}
  head -c {bytes} /dev/urandom >/tmp/turn{version}
  dd if=/tmp/turn{version} of={at}/turn{version} bs=64k conv=fsync 2>/dev/null || {{ echo "write {version}, turn $turn"; exit 1; }}
  umount {at} || {{ echo "umount {version}, turn $turn"; exit 1; }}
  {mount} || {{ echo "mount {version} again, turn $turn"; exit 1; }}
  cmp {at}/turn{version} /tmp/turn{version} || exit 1
  rm {at}/turn{version} && umount {at} || {{ echo "second umount {version}, turn $turn"; exit 1; }}
done
"""


@dataclass(frozen=True)
class Held:
    """What a gateway holds."""

    descriptors: float
    connections: float
    half_open: float
    in_time_wait: float
    credits: float
    backend_sockets: float
    backend_calls: float
    buffers: float
    memory_mb: float

    @staticmethod
    def by(rig: Rig) -> "Held":
        assert rig.gateway
        metrics = rig.gateway.metrics()
        return Held(
            metrics.total("process_open_fds"),
            metrics.total("causeway_connections"),
            metrics.total("causeway_connections_half_open"),
            metrics.total("causeway_connections_timewait"),
            metrics.total("causeway_rpcrdma_credits_granted"),
            metrics.total("causeway_backend_connections"),
            metrics.total("causeway_backend_inflight_calls"),
            metrics.total("causeway_mempool_available_objects"),
            resident_mb(rig.gateway.pid),
        )

    def more_than(self, other: "Held") -> str:
        """What there is more of; empty: nothing."""
        slack = {"buffers": BUFFERS_UNDER_WAY, "memory_mb": SLACK_MB}
        mine, others = asdict(self), asdict(other)
        mine["buffers"], others["buffers"] = -mine["buffers"], -others["buffers"]
        return "; ".join(
            f"{name}: {abs(mine[name]):g}, was {abs(others[name]):g}"
            for name in mine
            if mine[name] > others[name] + slack.get(name, 0)
        )


def mount_churn(turns: int, seconds_at_most: int) -> Callable[[Rig], None]:
    """`turns` of two mounts for each version."""

    def body(rig: Rig) -> None:
        assert rig.gateway
        gateway = rig.gateway
        _watch(rig, _start(rig, WARM_TURNS, 300))
        wait_until(
            lambda: Held.by(rig).connections + Held.by(rig).in_time_wait == 0,
            60,
            "the first connections are forgotten",
            interval=0.5,
        )
        before, counted = Held.by(rig), gateway.metrics()
        start = time.monotonic()
        peak = _watch(rig, _start(rig, turns, seconds_at_most))
        seconds = time.monotonic() - start
        try:
            wait_until(lambda: not Held.by(rig).more_than(before), 60, "everything is back where it was", interval=0.5)
        except LabError as error:
            raise LabError(f"{error}; {Held.by(rig).more_than(before)}") from error
        after = gateway.metrics()
        after.lint()
        mounts = 2 * turns * len(VERSIONS)
        grown = {
            name: after.total(name) - counted.total(name)
            for name in (
                "causeway_connections_refused_total",
                "causeway_rpcrdma_errors_total",
                "causeway_rpcrdma_credit_violations_total",
            )
        }
        established = after.total("causeway_connections_total", result="established")
        established -= counted.total("causeway_connections_total", result="established")
        # A mount of NFSv4 may use a connection for the probe of the server before its own.
        if established < mounts or any(grown.values()):
            raise LabError(f"{mounts} mounts, {established:.0f} connections established, {grown}")
        left = rig.guest.check("rdma resource show qp | grep -c 'type RC' || true").strip()
        if left != "0":
            raise LabError(f"{left} queue pairs are left in the guest")
        print(
            f"   {mounts} mounts, {established:.0f} connections in {seconds:.0f} s; at most {peak.connections:.0f} connections,"
            f" {peak.descriptors:.0f} descriptors, {peak.memory_mb:.1f} MiB; before {before.descriptors:.0f}, {before.memory_mb:.1f} MiB,"
            f" after {Held.by(rig).memory_mb:.1f} MiB",
            flush=True,
        )

    return body


def _start(rig: Rig, turns: int, seconds: int) -> Aside:
    scripts = []
    for version in VERSIONS:
        at = f"/tmp/churn{version}"
        script = TURNS.format(turns=turns, mount=rig.mount_command(version, at=at), version=version, bytes=FILE_BYTES, at=at)
        scripts.append(f"mkdir -p {at}\n({script}) & job{version.replace('.', '_')}=$!")
    waits = " && ".join(f"wait $job{version.replace('.', '_')}" for version in VERSIONS)
    return rig.guest.run_aside("\n".join([*scripts, waits]), seconds)


def _watch(rig: Rig, job: Aside) -> Held:
    """The most of everything while the job runs, sampled twice a second; the fewest buffers."""
    samples = [Held.by(rig)]
    while job.running():
        time.sleep(0.5)
        samples.append(Held.by(rig))
    job.result()
    columns = {name: max(getattr(each, name) for each in samples) for name in asdict(samples[0])}
    columns["buffers"] = min(each.buffers for each in samples)
    return Held(**columns)
