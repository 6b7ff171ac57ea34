"""The kernel's clock is really stepped by hours, forward and back, under a client that writes: in the guest in which the gateway runs,
and in the guest that is the client. No clock of this machine is touched.

    client guest 10.9.0.2 ── bridge roce ── gateway guest: causewayd 10.9.0.1 on roce0 ── control network ── Ganesha
Everything that waits in the kernel of the stepped machine (futexes, timers, sockets, RDMA) meets the step, not only what a library
can put between a program and clock_gettime.
"""

import os
import re
import subprocess
import time
from pathlib import Path

from lab import ganesha, gateway, metrics, network
from lab.daemon import LabError, wait_until
from lab.ganesha import Ganesha
from lab.guest import Guest, Nic
from lab.metrics import Metrics
from lab.rig import MOUNT_POINT
from lab.sandbox import RUN

MTU = 4500
FILES = 200
FILE_BYTES = 300_003
HOURS = (6, -12, 6)
HOME = "/opt/gateway"
PLUGINS = Path("/usr/lib/x86_64-linux-gnu/dpdk")
NEEDED_PLUGINS = ("bus_vdev", "mempool_ring", "net_af_packet")
LOG = "/tmp/causewayd.log"
# What a timer that the step moved would show in.
QUIET = ("causeway_connections_closed_total", "causeway_roce_retries_exhausted_total", "causeway_rpcrdma_call_timeouts_total",
         "causeway_backend_reconnects_total", "causeway_backend_connect_failures_total", "causeway_backend_call_timeouts_total",
         "causeway_rpcrdma_errors_total")


def _libraries(program: Path) -> set[Path]:
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return {Path(word) for word in re.findall(r"(/\S+)(?: \(0x|$)", said)}


def _plugins() -> list[Path]:
    found = [path for name in NEEDED_PLUGINS for path in PLUGINS.glob(f"pmds-*/librte_{name}.so.*") if not path.is_symlink()]
    if len(found) != len(NEEDED_PLUGINS):
        raise LabError(f"DPDK's plugins are not in {PLUGINS}")
    return found


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["strip", "-o", str(target), str(source)], check=True)


def _bundle(target: Path) -> None:
    """causewayd, causewayctl, and all that they load, for a machine that has nothing of it."""
    root = RUN / "bundle"
    home = root / HOME[1:]
    programs = [gateway.default_program(), gateway.default_program().parent.parent / "control/ctl/causewayctl"]
    libraries: set[Path] = set()
    for program in programs:
        _put(program, home / program.name)
        libraries |= _libraries(program)
    # DPDK looks for its plugins where it was compiled to; they link to each other by their short names, and none is to be there twice.
    for plugin in _plugins():
        place = root / str(plugin)[1:]
        _put(plugin, place)
        place.with_name(re.sub(r"(\.so\.\d+).*", r"\1", plugin.name)).symlink_to(plugin.name)
        libraries |= _libraries(plugin)
    for library in libraries:
        if not any(library.name == link.name for link in root.glob("usr/lib/**/*.so.*")):
            (home / "lib").mkdir(exist_ok=True)
            subprocess.run(["cp", "-L", str(library), str(home / "lib" / library.name)], check=True)
    subprocess.run(["tar", "-C", str(root), "-czf", str(target), "."], check=True)


class GatewayGuest:
    """A guest in which causewayd runs, on a packet socket of its RoCE interface."""

    def __init__(self, logs: Path) -> None:
        self.guest = Guest(Nic("tap", MTU, tap="roce-server"), logs, number=3, name="gateway", memory_mb=1024)
        self._metrics = f"{self.guest.address}:9464"
        self._log = logs / "causewayd.log"

    def start(self) -> None:
        network.add_tap("roce-server", MTU, bridge="roce")
        self.guest.start()
        bundle = RUN / "bundle.tar.gz"
        _bundle(bundle)
        self.guest.send(bundle, "/tmp/bundle.tar.gz")
        config = RUN / "guest.toml"
        text = gateway.CONFIG.format(
            poll_lcore=0, device="net_af_packet0,iface=roce0,framesz=8192,blocksz=65536,framecnt=256", mtu=MTU, port=gateway.PORT,
            addresses=f'addresses = ["{network.GATEWAY}/24"]', backend=f"{network.CONTROL_HOST}:{ganesha.NFS_PORT}",
            metrics=self._metrics, admin="/tmp/admin.sock")
        # Timers that are due while the clock is stepped.
        text = text.replace("memory_mb = 512", "memory_mb = 256\nrx_buffers = 8192").replace("[log]", "[limits]\nconnections_max = 16\n[roce]\nkeepalive_s = 1\n[log]")
        text = text.replace('type = "tcp"', 'type = "tcp"\ncheck_interval_ms = 500\ncall_timeout_s = 30')
        config.write_text(text)
        self.guest.send(config, "/tmp/causeway.toml")
        # rxe of this guest's kernel would be a second one that hears RoCE packets.
        self.guest.check("rdma link del rxe0; cd / && tar -xzf /tmp/bundle.tar.gz && rm /tmp/bundle.tar.gz && mkdir -p /tmp/run", 120)
        self.guest.check(f"XDG_RUNTIME_DIR=/tmp/run setsid {self._loaded('causewayd')} --config /tmp/causeway.toml >{LOG} 2>&1 </dev/null &")
        try:
            wait_until(lambda: "causewayd: ready" in self.log(), 90, "the gateway in its guest", interval=0.5)
        except LabError as error:
            raise LabError(f"{error}; it said: {self.log()[-1000:]}") from error

    def log(self) -> str:
        return self.guest.run(f"cat {LOG}")[1]

    def ctl(self, *words: str) -> None:
        self.guest.check(f"{self._loaded('causewayctl')} --socket /tmp/admin.sock {' '.join(words)}")

    def metrics(self) -> Metrics:
        return metrics.scrape(self._metrics, timeout=20)

    def stop(self) -> None:
        if self.guest.alive():
            self._log.write_text(self.log())
        self.guest.stop()

    @staticmethod
    def _loaded(program: str) -> str:
        path = ":".join([f"{HOME}/lib", *sorted({str(plugin.parent) for plugin in _plugins()})])
        return f"{HOME}/lib/ld-linux-x86-64.so.2 --library-path {path} {HOME}/{program}"


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
    network.add_bridge("roce", MTU)
    network.add_tap("roce-guest", MTU, bridge="roce")
    backend, client, server = Ganesha(logs), Guest(Nic("tap", MTU, tap="roce-guest"), logs), GatewayGuest(logs)
    try:
        backend.start()
        server.start()
        client.start()
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
    finally:
        client.stop()
        server.stop()
        backend.stop()
        for link in ("roce-guest", "roce-server", "roce"):
            network.remove(link)


def _says_the_new_time(server: GatewayGuest) -> None:
    """The gateway's log is of the hour that its kernel says."""
    have = len(server.log())
    hour = server.guest.check("date -u +%Y-%m-%dT%H").strip()
    server.ctl("log", "level", "debug")
    server.ctl("log", "level", "info")
    if f"\n{hour}" not in "\n" + server.log()[have:]:
        raise LabError(f"the log has no line of {hour}: {server.log()[have:][-300:]}")
