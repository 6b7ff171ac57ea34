"""The kernel's clock is really stepped by hours, forward and back, under a client that writes: in the guest in which the gateway runs,
and in the guest that is the client. No clock of this machine is touched.

    client guest 10.9.0.2 ── bridge roce ── gateway guest: causewayd 10.9.0.1 on roce0 ── control network ── Ganesha
Everything that waits in the kernel of the stepped machine (futexes, timers, sockets, RDMA) meets the step, not only what a library
can put between a program and clock_gettime.
"""

import os
import time
from pathlib import Path

from lab import gateway, network
from lab.daemon import LabError, wait_until
from lab.gateway_guest import GatewayGuest, in_front_of
from lab.guest import Guest
from lab.metrics import Metrics
from lab.rig import MOUNT_POINT

MTU = 4500
FILES = 200
FILE_BYTES = 300_003
HOURS = (6, -12, 6)
# What a timer that the step moved would show in.
QUIET = (
    "causeway_connections_closed_total",
    "causeway_roce_retries_exhausted_total",
    "causeway_rpcrdma_call_timeouts_total",
    "causeway_backend_reconnects_total",
    "causeway_backend_connect_failures_total",
    "causeway_backend_call_timeouts_total",
    "causeway_rpcrdma_errors_total",
)


def _step(guest: Guest, hours: int) -> None:
    before = time.monotonic(), int(guest.check("date +%s"))
    after = int(guest.check(f"date -s @$(($(date +%s) + {hours * 3600})) >/dev/null && date +%s"))
    moved = after - before[1] - (time.monotonic() - before[0])
    if abs(moved - hours * 3600) > 60:
        raise LabError(f"the clock of guest {guest.name} moved by {moved:.0f} s, not by {hours} hours")


def _changed(before: Metrics, after: Metrics) -> list[str]:
    return [f"{name} rose by {rise:g}" for name in QUIET if (rise := after.total(name) - before.total(name)) != 0]


def clock_step(logs: Path) -> None:
    """Both clocks, one after the other, by each of HOURS: writes go on within seconds, nothing times out, no connection ends."""
    # Timers that are due while the clock is stepped.
    server = GatewayGuest(
        logs,
        MTU,
        "net_af_packet0,iface=roce0,framesz=8192,blocksz=65536,framecnt=256",
        f'addresses = ["{network.GATEWAY}/24"]',
        "[roce]\nkeepalive_s = 1",
    )
    with in_front_of(server, logs, MTU) as (backend, client):
        client.check(f"/sbin/mount.nfs {network.GATEWAY}:/ {MOUNT_POINT} -o vers=4.1,proto=rdma,port={gateway.PORT}", 90)
        job = client.run_aside(f"churn_write {MOUNT_POINT}/clock {FILES} {FILE_BYTES}", 550)
        directory = backend.export / "clock"

        def files() -> int:
            return len(os.listdir(directory)) if directory.exists() else 0

        wait_until(lambda: files() > 2, 120, "writes under way")
        before, start, slowest = server.metrics(), server.metrics().total("process_start_time_seconds"), 0.0
        for machine in (server.guest, client):
            for hours in HOURS:
                if not job.running():
                    raise LabError("the writes were over before the last step; nothing was shown")
                _step(machine, hours)
                stepped, have = time.monotonic(), files()
                wait_until(lambda have=have: files() > have + 1, 60, f"writes after {machine.name}'s clock went {hours:+d} hours")
                slowest = max(slowest, time.monotonic() - stepped)
                if machine is server.guest:
                    _says_the_new_time(server)
        job.result()
        after = server.metrics()
        if changed := _changed(before, after):
            raise LabError("; ".join(changed))
        if after.total("process_start_time_seconds") != start:
            raise LabError("the gateway started at another time than before")
        client.check(f"churn_check {MOUNT_POINT}/clock", 120)
        sums = client.check("cat /tmp/churn.SUMS")
        written = {name: digest for digest, name in (line.split() for line in sums.splitlines())}
        digests = backend.digests("clock")
        if len(written) != FILES or written != digests:
            raise LabError("client and server disagree after the steps")
        print(f"   two files more within {slowest:.1f} s of each step", flush=True)
        client.check(f"umount {MOUNT_POINT}", 60)


def _says_the_new_time(server: GatewayGuest) -> None:
    """The gateway's log is of the hour that its kernel says."""
    have = len(server.log())
    hour = server.guest.check("date -u +%Y-%m-%dT%H").strip()
    server.ctl("log", "level", "debug")
    server.ctl("log", "level", "info")
    if f"\n{hour}" not in "\n" + server.log()[have:]:
        raise LabError(f"the log has no line of {hour}: {server.log()[have:][-300:]}")
