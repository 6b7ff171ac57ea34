"""A fail-over pair: two gateways beside their kernels, one address that keepalived moves, one backend, a client that writes.

    guest 10.9.0.2 ── bridge roce ──┬── gw1: 10.9.0.11, and 10.9.0.1 ──┬── bridge back ── 10.7.0.254 Ganesha
                                    └── gw2: 10.9.0.12 ────────────────┘
Each gateway, its kernel's addresses and its keepalived are in a network namespace of their own. The configuration is the one of
deploy/keepalived, with this lab's names in it.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable

from lab import gateway, ganesha, network
from lab.daemon import Daemon, LabError, wait_until
from lab.ganesha import Ganesha
from lab.guest import Guest, Nic
from lab.rig import MOUNT_POINT
from lab.sandbox import RUN

DEPLOY = Path(__file__).resolve().parents[3] / "deploy/keepalived"
BACK = "10.7.0.254"
MTU = 2200
FILES = 60


class Host:
    """One of the pair."""

    def __init__(self, number: int, logs: Path) -> None:
        self.number = number
        self.name = f"gw{number}"
        self._directory = RUN / self.name
        self._directory.mkdir()
        config = self._directory / "causeway.toml"
        nic = Nic("tap", MTU, shares="af_xdp")
        config.write_text(
            gateway.config_text(
                instance=self.name,
                poll_lcores=0,
                device=gateway.device_of(nic),
                mtu=MTU,
                addresses=f'beside_kernel = true\naddresses = ["{network.GATEWAY}/24"]',
                backend=f"{BACK}:{ganesha.NFS_PORT}",
                admin=self._directory / "admin.sock",
            )
        )
        inside = ["ip", "netns", "exec", self.name]
        self.gateway = Daemon(
            self.name, [*inside, str(gateway.default_program()), "--config", str(config)], logs / f"{self.name}.log"
        )
        keepalived = [
            "keepalived",
            "--dont-fork",
            "--log-console",
            "--log-detail",
            "--use-file",
            str(self._keepalived()),
            "--pid",
            str(self._directory / "keepalived.pid"),
            "--vrrp_pid",
            str(self._directory / "vrrp.pid"),
        ]
        self.keepalived = Daemon(f"keepalived-{self.name}", [*inside, *keepalived], logs / f"keepalived-{self.name}.log")

    def _keepalived(self) -> Path:
        text = (DEPLOY / "keepalived.conf").read_text()
        own, other = f"10.9.0.1{self.number}", f"10.9.0.1{3 - self.number}"
        for old, new in (
            ("/etc/keepalived/check-gateway.sh", str(RUN / "check-gateway.sh")),
            ("eth0", network.SHARED),
            ("192.0.2.10/", f"{network.GATEWAY}/"),
            ("192.0.2.11", own),
            ("192.0.2.12", other),
            ("priority 150", f"priority {200 - 50 * self.number}"),
        ):
            if old not in text:
                raise LabError(f"deploy/keepalived/keepalived.conf has no {old!r} any more")
            text = text.replace(old, new)
        path = self._directory / "keepalived.conf"
        path.write_text(text)
        return path

    def wire(self) -> None:
        network.ip("netns", "add", self.name)
        for inner, bridge, address in (
            (network.SHARED, "roce", f"10.9.0.1{self.number}/24"),
            ("back0", "back", f"10.7.0.{self.number}/24"),
        ):
            outer = f"{bridge}-{self.name}"
            network.ip(
                "link",
                "add",
                outer,
                "numrxqueues",
                "1",
                "numtxqueues",
                "1",
                "type",
                "veth",
                "peer",
                "name",
                inner,
                "netns",
                self.name,
                "numrxqueues",
                "1",
                "numtxqueues",
                "1",
            )
            network.ip("link", "set", outer, "master", bridge, "mtu", str(MTU), "up")
            network.ip("-n", self.name, "link", "set", inner, "mtu", str(MTU), "up")
            network.ip("-n", self.name, "address", "add", address, "dev", inner)
        network.ip("-n", self.name, "link", "set", "lo", "up")

    def start(self) -> None:
        self.gateway.start()
        self.gateway.wait_for_line(r"^causewayd: ready", 30)
        self.keepalived.start()

    def has_address(self) -> bool:
        shown = subprocess.run(
            ["ip", "-n", self.name, "-brief", "address", "show", "dev", network.SHARED],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return f" {network.GATEWAY}/" in shown

    def stop(self) -> None:
        self.keepalived.stop(5)
        self.gateway.stop(5)

    def lose(self) -> None:
        """As when its power fails: off the wire before anybody can say goodbye, and nothing of it is left."""
        for bridge in ("roce", "back"):
            network.ip("link", "set", f"{bridge}-{self.name}", "down")
        for pid in subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True).stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        self.keepalived.kill()
        self.gateway.kill()
        network.ip("netns", "del", self.name)
        network.remove(f"roce-{self.name}")
        network.remove(f"back-{self.name}")
        for left in self._directory.glob("*.pid"):  # /run is new after a start, and keepalived believes what lies there
            left.unlink()

    def come_back(self) -> None:
        self.wire()
        self.start()


def _bytes(directory: Path) -> int:
    try:
        return sum(path.stat().st_size for path in directory.iterdir())
    except FileNotFoundError:
        return 0


def _longest_pause(directory: Path, until: float, done: Callable[[], bool]) -> float:
    """Seconds without a change of what the backend has, from now on."""
    longest, last, seen = 0.0, time.monotonic(), _bytes(directory)
    while not done() and time.monotonic() < until:
        time.sleep(0.02)
        now, written = time.monotonic(), _bytes(directory)
        if written != seen:
            longest, last, seen = max(longest, now - last), now, written
    return longest


class _Lab:
    """The pair, its backend, and a guest that has mounted the export at the address that moves."""

    def __init__(self, logs: Path) -> None:
        if shutil.which("keepalived") is None or shutil.which("curl") is None:
            raise LabError("packages keepalived and curl are missing")
        shutil.copy(DEPLOY / "check-gateway.sh", RUN / "check-gateway.sh")
        network.add_bridge("roce", MTU)
        network.add_tap("roce-guest", MTU, bridge="roce")
        network.add_bridge("back", MTU)
        network.ip("address", "add", f"{BACK}/24", "dev", "back")
        self.backend, self.guest = Ganesha(logs), Guest(Nic("tap", MTU, tap="roce-guest"), logs)
        self.first, self.second = Host(1, logs), Host(2, logs)

    def __enter__(self) -> "_Lab":
        try:
            self.backend.start()
            for host in (self.first, self.second):
                host.come_back()
            self.guest.start()
            wait_until(self.first.has_address, 30, "the address at the first gateway")
            if self.second.has_address():
                raise LabError("both gateways have the address")
            self.guest.check(
                f"/sbin/mount.nfs {network.GATEWAY}:/ {MOUNT_POINT} -o vers=4.1,proto=rdma,port={gateway.PORT},timeo=50", 60
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.guest.stop()
        for host in (self.first, self.second):
            host.stop()
            subprocess.run(["ip", "netns", "del", host.name], check=False, stderr=subprocess.DEVNULL)  # a lost host has none
        self.backend.stop()
        for link in ("roce-guest", "roce", "back"):
            network.remove(link)

    def writes_through(self, name: str, what: Callable[[], object]) -> float:
        """The client writes to a directory of that name while `what` happens, and what the backend has in the end is what was
        written. Seconds of the longest pause."""
        job = self.guest.run_aside(f"churn_write {MOUNT_POINT}/{name} {FILES} 500003", 300)
        directory = self.backend.export / name
        wait_until(lambda: _bytes(directory) > 4 * 500_003, 60, "writes under way")
        began = time.monotonic()
        what()
        stall = _longest_pause(directory, began + 280, lambda: not job.running())
        job.result()
        self.guest.check(f"churn_check {MOUNT_POINT}/{name}", 120)
        sums = self.guest.check("cat /tmp/churn.SUMS")
        client = {file: digest for digest, file in (line.split() for line in sums.splitlines())}
        if len(client) != FILES or client != self.backend.digests(name):
            raise LabError(f"client and server disagree after the fail-over of {name}")
        return stall

    def end(self) -> None:
        self.guest.check(f"umount {MOUNT_POINT}", 60)


def failover(logs: Path) -> None:
    """The gateway that has the address is killed while the client writes: the writes go on through the other one, and what the
    backend has is what was written. Prints the stall."""
    with _Lab(logs) as lab:
        stall = lab.writes_through("failover", lab.first.gateway.kill)  # ip netns exec has become it
        if not lab.second.has_address() or lab.first.has_address():
            raise LabError("the address did not move")
        print(f"# the longest pause of the writing client was {stall:.1f} s", flush=True)
        lab.end()


def failover_host(logs: Path) -> None:
    """The host that has the address is gone from one moment to the next, comes back while the client writes, and takes over when
    the other host is gone in its turn. Prints the stalls."""
    with _Lab(logs) as lab:
        stall = lab.writes_through("first-lost", lab.first.lose)
        if not lab.second.has_address():
            raise LabError("the address did not move")
        print(f"# the longest pause of the writing client was {stall:.1f} s when the host was lost", flush=True)
        stall = lab.writes_through("first-back", lab.first.come_back)
        if lab.first.has_address() or not lab.second.has_address():
            raise LabError("the host that came back took the address from the one that served (nopreempt)")
        print(f"# {stall:.1f} s when it came back", flush=True)
        stall = lab.writes_through("second-lost", lab.second.lose)
        if not lab.first.has_address():
            raise LabError("the address did not move back")
        print(f"# {stall:.1f} s when the other host was lost", flush=True)
        lab.end()
