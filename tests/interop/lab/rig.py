"""A guest, a server side and the wire between them, started together and used by several cases.

Three kinds:
  gateway    guest -RoCE-> causewayd -TCP-> Ganesha     what the suite is for
  direct     guest -TCP-> Ganesha                       proves guest, backend and workload without causewayd
  reference  guest -RoCE-> kernel NFS/RDMA server       proves the RDMA part of the client without causewayd
With transport "verbs-rxe" or "verbs-siw" causewayd is in a guest of its own, on that kernel's RDMA device; with "vfio-..." it has a NIC of that
model there.
The gateway's backend may also be knfsd in a second guest, over TCP: it grants delegations, which Ganesha's VFS does not.
"""

import contextlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional, Union

from lab import ganesha, gateway, image, kerberos, metrics, mountstats, network
from lab.daemon import LabError, wait_until
from lab.ganesha import Ganesha
from lab.gateway import Gateway
from lab.gateway_guest import GatewayGuest
from lab.guest import Guest, Nic
from lab.reference import KnfsdTcp, Reference
from lab.sandbox import RUN

MOUNT_POINT = "/mnt"
# Pairs of queues that QEMU's models of NICs have to be given; the others have as many as they have.
QUEUES = {"virtio": 2}

# What waits in the guest's kernel, for whom, and what its RPC clients think of their calls.
_CLIENT_STATE = """ps
mount -t debugfs none /sys/kernel/debug 2>/dev/null
for tasks in /sys/kernel/debug/sunrpc/rpc_clnt/*/tasks; do echo $tasks; cat $tasks; done
cat /proc/self/mountstats
tail -n 100 /tmp/aside-*.log
echo w >/proc/sysrq-trigger; sleep 1; dmesg | tail -n 400"""
# Of that, what is worth a look before the log: RPC tasks, what hangs, an exerciser that has failed, connections.
_TELLING = re.compile(r"a:call_|a:rpc_|a:nfs|task:\S+ +state:D|^FAIL|soft lockup|rcu.*stall|ESTAB.*:20049")


@dataclass(frozen=True)
class Wire:
    """Cases with the same wire share a rig, that is, one boot of the guest."""

    kind: str  # "gateway", "direct", "reference", "peers"
    transport: str  # "vhost", "tap", or "tcp" for direct; "af_xdp", "exception": a tap, and the gateway shares the kernel's address; "siw": iWARP; "verbs-rxe", "verbs-siw", "vfio-...": two guests
    roce_mtu: int  # 1024, 2048 or 4096; 0 for direct, siw and verbs
    backend: str = "ganesha"  # of a gateway: or "knfsd", in a second guest
    kernel: str = image.USUAL  # series of the client's Linux
    kerberos: bool = False  # Ganesha takes calls with Kerberos only
    jumbo: bool = False  # the link carries more than RoCE's packets need
    cores: int = 1  # poll cores of a causewayd on verbs

    @property
    def name(self) -> str:
        parts = [self.transport]
        if self.roce_mtu:
            parts.append(str(self.roce_mtu))
        if self.backend != "ganesha":
            parts.append(self.backend)
        if self.kernel != image.USUAL:
            parts.append(f"linux{self.kernel}")
        if self.kerberos:
            parts.append("kerberos")
        if self.jumbo:
            parts.append("jumbo")
        if self.cores > 1:
            parts.append(f"{self.cores}cores")
        return "-".join(parts)

    @property
    def link_mtu(self) -> int:
        return 9000 if self.jumbo else {4096: 4500, 2048: 2200}.get(self.roce_mtu, 1500)

    @property
    def verbs(self) -> str:
        """The RDMA device on which causewayd serves in its guest; empty: it has a wire of its own."""
        return {"verbs-rxe": "rxe0", "verbs-siw": "siw0"}.get(self.transport, "")

    @property
    def model(self) -> str:
        """Of the NIC that causewayd has in its guest by vfio-pci; empty: none."""
        return self.transport[len("vfio-") :] if self.transport.startswith("vfio-") else ""

    @property
    def in_guest(self) -> bool:
        """Causewayd has a guest of its own."""
        return bool(self.verbs or self.model)

    @property
    def shares(self) -> bool:
        return self.transport in ("af_xdp", "exception", "siw")


class Rig:
    def __init__(self, wire: Wire, logs: Path, capture: bool = False) -> None:
        self.wire = wire
        self.logs = logs
        self.gateway: Union[Gateway, GatewayGuest, None] = None
        self.realm = kerberos.Realm(logs) if wire.kerberos else None
        self.backend: Union[Ganesha, Reference]
        nic = Nic("none")
        if wire.transport == "vhost":
            nic = Nic("vhost", wire.link_mtu, socket=RUN / "vhost.sock")
        elif wire.transport == "tap" or wire.in_guest:
            pcap = logs / "roce.pcap" if capture else None
            nic = Nic("tap", wire.link_mtu, tap="roce-guest", capture=pcap, iwarp=wire.verbs == "siw0")
        elif wire.shares:
            nic = Nic(
                "tap", wire.link_mtu, tap="roce-guest", capture=logs / "roce.pcap" if capture else None, shares=wire.transport
            )
        if wire.kind == "reference":
            self.backend = Reference(Nic("tap", wire.link_mtu, tap="roce-server"), logs)
            self.server, self.server_v6, self.port = network.GATEWAY, network.GATEWAY_V6, gateway.PORT
            self.mountd, self.mountd_v6 = self.backend.guest.address, self.backend.guest.address_v6
        else:
            if wire.backend == "knfsd":
                self.backend = KnfsdTcp(logs, number=4 if wire.verbs else 1)
                self.mountd, self.mountd_v6 = self.backend.guest.address, self.backend.guest.address_v6
                backend_address = self.backend.address
            else:
                self.backend = Ganesha(logs, self.realm)
                backend_address = f"127.0.0.1:{self.backend.port}"
                self.mountd, self.mountd_v6 = network.CONTROL_HOST, network.CONTROL_HOST_V6
            if wire.kind == "gateway":
                if wire.in_guest:
                    at_control = backend_address.replace("127.0.0.1", network.CONTROL_HOST)
                    self.gateway = GatewayGuest(
                        logs,
                        wire.link_mtu,
                        port=f'addresses = ["{network.GATEWAY}/24", "{network.GATEWAY_V6}/64"]' if wire.model else "",
                        backend=at_control,
                        rdma=wire.verbs,
                        number=1,
                        model=wire.model,
                        queues=QUEUES.get(wire.model, 1),
                        cores=wire.cores,
                    )
                else:
                    self.gateway = Gateway(nic, logs, backend_address)
                self.server, self.server_v6, self.port = network.GATEWAY, network.GATEWAY_V6, gateway.PORT
            else:
                self.server, self.server_v6 = network.CONTROL_HOST, network.CONTROL_HOST_V6
                self.port = ganesha.NFS_PORT
        self.guest = Guest(nic, logs, kernel=wire.kernel)

    def start(self) -> None:
        if self.wire.kind == "reference" or self.wire.in_guest:
            network.add_bridge("roce", self.wire.link_mtu)
            network.add_tap("roce-guest", self.wire.link_mtu, bridge="roce")
        if self.wire.kind == "reference":
            network.add_tap("roce-server", self.wire.link_mtu, bridge="roce")
        elif self.wire.shares:
            network.share_with_kernel(self.wire.transport, self.wire.link_mtu)
        elif self.wire.transport == "tap":
            network.add_tap("roce-guest", self.wire.link_mtu)
        self.backend.start()
        if self.gateway:
            self.gateway.start()  # before the guest: QEMU waits for the vhost-user socket
        self.guest.start()
        if self.realm:
            self.realm.join(self.guest)

    def note_state(self) -> None:
        """What the client, the gateway and TCP between them say of themselves when a case has failed: in state.log."""
        parts = []
        if self.guest.alive():
            with contextlib.suppress(LabError):
                parts.append("client\n" + self.guest.run(_CLIENT_STATE, 40)[1])
        if self.gateway:
            for words in (("status",), ("--json", "connections"), ("--json", "qp"), ("trace",)):
                with contextlib.suppress(LabError, OSError, subprocess.TimeoutExpired):
                    parts.append(f"causewayctl {' '.join(words)}\n" + self.gateway.ctl(*words, timeout=20))
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            sockets = subprocess.run(["ss", "-tanoimp"], capture_output=True, text=True, timeout=20, check=False)
            parts.append("ss -tanoimp\n" + sockets.stdout)
        text = "\n\n".join(parts)
        (self.logs / "state.log").write_text(text)
        telling = [line.strip() for line in text.splitlines() if _TELLING.search(line)]
        for line in telling[:20]:
            print(f"   {line[:160]}", flush=True)

    def stop(self) -> None:
        if self.guest.alive():
            with contextlib.suppress(LabError):
                (self.logs / "guest-dmesg.log").write_text(self.guest.run("dmesg", 10)[1])
        self.guest.stop()
        if self.gateway:
            self.gateway.stop()
        self.backend.stop()
        for link in ("roce-guest", "roce-server", "roce", network.SHARED):
            network.remove(link)

    def mount_command(self, version: str, v6: bool = False, at: str = MOUNT_POINT, more: str = "") -> str:
        server = f"[{self.server_v6}]" if v6 else self.server
        if self.realm:
            server = kerberos.SERVER  # the service's name has it, an address would be looked up
        proto = ("tcp" if self.wire.kind == "direct" else "rdma") + ("6" if v6 else "")
        options = f"vers={version},proto={proto},port={self.port}{more}"
        if version == "3" and self.wire.shares and isinstance(self.backend, Ganesha):
            options += ",nolock"  # rpcbind and mountd are at the same address; Ganesha is configured without a lock manager
        elif version == "3":
            # With proto=rdma neither mount.nfs nor the kernel asks rpcbind when all of these are given. mountd is
            # not behind the gateway; it is reached over the control network.
            # mount.nfs takes both servers to be of one address family.
            mountd = f"mountaddr={self.mountd_v6},mountproto=tcp6" if v6 else f"mountaddr={self.mountd},mountproto=tcp"
            options += f",{mountd},mountport={ganesha.MOUNT_PORT},nolock"
        return f"/sbin/mount.nfs {server}:{self.backend.mount_path(version)} {at} -o {options}"

    def stats(self, at: str = MOUNT_POINT) -> mountstats.MountStats:
        return mountstats.parse(self.guest.check("cat /proc/self/mountstats"), at)

    @contextlib.contextmanager
    def mounted(self, version: str, v6: bool = False, more: str = "") -> Iterator[None]:
        """Mounts, and on the way out checks the client's statistics, unmounts and checks that it is clean.
        `more`: mount options, each after a comma."""
        with self._mounted({version: MOUNT_POINT}, v6, more):
            yield

    @contextlib.contextmanager
    def mounted_beside(self, versions: tuple[str, ...], more: str = "") -> Iterator[dict[str, str]]:
        """The same for several versions at once, each a client of its own to the server. Yields where, by version."""
        places = {version: f"/tmp/nfs{version}" for version in versions}
        self.guest.check(f"mkdir -p {' '.join(places.values())}")
        with self._mounted(places, False, more):
            yield places

    @contextlib.contextmanager
    def _mounted(self, places: dict[str, str], v6: bool, more: str) -> Iterator[None]:
        for version, at in places.items():
            self.guest.check(self.mount_command(version, v6, at, more), 40)
        yield
        wanted = "tcp" if self.wire.kind == "direct" else "rdma"
        for at in places.values():
            stats = self.stats(at)
            if stats.transport != wanted:
                raise LabError(f"{at} mounted over {stats.transport}, not {wanted}")
            # failed_marshal may grow: the client counts "no memory registration free just now, wait" there.
            if stats.xprt.get("bad_reply", 0) != 0:
                raise LabError(f"mountstats: bad_reply {stats.xprt['bad_reply']}")
        for at in places.values():
            self.guest.check(f"umount {at} && ! grep -q ' {at} ' /proc/mounts", 60)
        if self.gateway:
            live = self.gateway
            wait_until(
                lambda: live.metrics().total("causeway_connections") == 0,
                15,
                "causeway_connections back at 0 after unmount",
                interval=0.5,
            )

    def scrape(self) -> Optional[metrics.Metrics]:
        return self.gateway.metrics() if self.gateway else None
