"""causeway-nfs-client, our own NFS client endpoint, against a kernel's NFS/RDMA server and against causewayd.

The program tries every chunk shape and compares the data; what it wrote is looked at on the server's side too. There is no
Linux client in these cases: a guest is only started where it serves.
"""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional, Union

from lab import ganesha, gateway, network
from lab.cases import Case
from lab.daemon import Daemon, LabError
from lab.ganesha import Ganesha
from lab.gateway import Gateway, device_of, load_program
from lab.guest import Nic
from lab.reference import KnfsdTcp, Reference
from lab.rig import Wire

CLIENT = "10.9.0.9/24"
CLIENT_V6 = "fd09::9/64"
VETH = ("nfs-client", "nfs-server")  # between the client and causewayd
DIRECTORY = "shapes"
ROOT = Path(__file__).resolve().parents[3]
LOAD_SCENARIO = ROOT / "deploy/load/nfs-mixed.toml"


def default_program() -> Path:
    return Path(os.environ.get("CAUSEWAY_NFS_CLIENT", ROOT / "build/tests/peers/causeway-nfs-client"))


class NfsRig:
    """Kind "nfs-client", backend "svcrdma": client -tap- guest with the kernel's NFS/RDMA server.
    "ganesha", "knfsd": client -veth- causewayd -TCP- backend.
    Transport "siw": iWARP by the kernel's TCP, on the same tap, or to an address of the veth."""

    def __init__(self, wire: Wire, logs: Path, capture: bool = False) -> None:
        self.wire = wire
        self.logs = logs
        self.gateway: Optional[Gateway] = None
        self.backend: Union[Ganesha, Reference]
        self._runs = 0
        self._is_iwarp = wire.transport == "siw"
        shares = wire.transport if self._is_iwarp else ""
        if not default_program().exists():
            raise LabError(f"no {default_program()}: build it, or name it in CAUSEWAY_NFS_CLIENT")
        if wire.backend == "svcrdma":
            pcap = logs / "roce.pcap" if capture else None
            self.nic = Nic("tap", wire.link_mtu, tap="roce-server", capture=pcap, shares=shares)
            self.backend = Reference(self.nic, logs)
            self.mountd = self.backend.guest.address
            return
        self.nic = Nic("tap", wire.link_mtu, tap=VETH[0])
        if wire.backend == "knfsd":
            self.backend = KnfsdTcp(logs)
            address, self.mountd = self.backend.address, self.backend.guest.address
        else:
            self.backend = Ganesha(logs)
            address, self.mountd = f"127.0.0.1:{ganesha.NFS_PORT}", network.CONTROL_HOST
        self.gateway = Gateway(Nic("tap", wire.link_mtu, tap=VETH[1], shares=shares), logs, address)

    def start(self) -> None:
        if self.gateway:
            network.add_veth(*VETH, self.wire.link_mtu)
            if self._is_iwarp:
                network.ip("address", "add", f"{network.GATEWAY}/24", "dev", VETH[1])
        elif self._is_iwarp:
            network.add_kernel_tap("roce-server", self.wire.link_mtu, CLIENT, CLIENT_V6)
        else:
            network.add_tap("roce-server", self.wire.link_mtu)
        self.backend.start()
        if self.gateway:
            self.gateway.start()

    def stop(self) -> None:
        if self.gateway:
            self.gateway.stop()
        if self.wire.backend == "svcrdma" and self.backend.guest.alive():
            with contextlib.suppress(LabError):
                (self.logs / "server-dmesg.log").write_text(self.backend.guest.run("dmesg", 10)[1])
        self.backend.stop()
        for link in ("roce-server", VETH[0]):
            network.remove(link)

    def _link(self, address: str) -> list[str]:
        if self._is_iwarp:
            return ["--transport", "iwarp"]
        return ["--device", device_of(self.nic), "--address", address, "--mtu", str(self.nic.mtu), "--memory-mb", "384"]

    def shapes(self, *options: str, v6: bool, timeout: float) -> None:
        """Runs the program; a shape that failed is an error."""
        self._runs += 1
        log = self.logs / f"nfs-client-{self._runs}.log"
        client = Daemon(
            "causeway-nfs-client",
            [
                str(default_program()),
                *self._link(CLIENT_V6 if v6 else CLIENT),
                "--server",
                network.GATEWAY_V6 if v6 else network.GATEWAY,
                "--port",
                str(gateway.PORT),
                "--mountd",
                self.mountd,
                "--mountd-port",
                str(ganesha.MOUNT_PORT),
                "--export",
                self.backend.mount_path("3"),
                "--directory",
                DIRECTORY,
                *options,
            ],
            log,
        )
        client.start()
        try:
            client.wait_for_end(timeout)
        finally:
            status = client.stop(5)
        lines = client.output().splitlines()
        failed = [line for line in lines if line.startswith("FAIL ")]
        if failed or status != 0:
            first = "; ".join(failed[:3]) or " ".join(lines[-2:])
            raise LabError(f"{len(failed)} shapes failed ({client.exit_text()}): {first}")

    def load(self, *options: str, timeout: float) -> dict[str, Any]:
        """Runs causeway-load's NFS scenario; returns its report."""
        if not load_program().exists():
            raise LabError(f"no {load_program()}: build it, or name it in CAUSEWAY_LOAD")
        self._runs += 1
        report = self.logs / f"load-{self._runs}.json"
        load = Daemon(
            "causeway-load",
            [
                str(load_program()),
                *self._link(CLIENT),
                "--server",
                network.GATEWAY,
                "--port",
                str(gateway.PORT),
                "--mountd",
                self.mountd,
                "--mountd-port",
                str(ganesha.MOUNT_PORT),
                "--export",
                self.backend.mount_path("3"),
                "--scenario",
                str(LOAD_SCENARIO),
                "--json",
                str(report),
                *options,
            ],
            self.logs / f"load-{self._runs}.log",
        )
        load.start()
        try:
            load.wait_for_end(timeout)
        finally:
            status = load.stop(5)
        if status != 0:
            raise LabError(f"causeway-load: {load.exit_text()}, last lines:\n{load.tail()}")
        return json.loads(report.read_text())

    def check_files(self, directory: str) -> None:
        """The server's side of what --keep left there: a file NAME-N holds the pattern from N on."""
        digests = {name: digest for name, digest in self.backend.digests(directory).items() if name.rsplit("-", 1)[-1].isdigit()}
        wrong = [name for name, digest in digests.items() if digest != _pattern_digest(int(name.rsplit("-", 1)[-1]))]
        if len(digests) < 10 or wrong:
            raise LabError(f"of {len(digests)} files in the server's directory {len(wrong)} are wrong: {', '.join(wrong[:3])}")


def _pattern_digest(start: int) -> str:
    """md5 of `start` bytes of apps/nfs/pattern.h from `start` on."""
    content = bytes(1 + (at + (at >> 6) * 37 + (at >> 12) * 101) % 251 for at in range(start, 2 * start))
    return hashlib.md5(content).hexdigest()


@dataclass(frozen=True)
class Shapes:
    """One run of the program; `connection` and `version` empty: all."""

    version: str = ""
    connection: str = ""
    v6: bool = False
    quick: bool = False

    def body(self, rig: NfsRig) -> None:
        options = {"svcrdma": ["--svcrdma"], "knfsd": ["--knfsd"]}.get(rig.wire.backend, [])
        options = options + (["--nfs", self.version] if self.version else [])
        options += ["--connection", self.connection] if self.connection else []
        options += ["--quick"] if self.quick else []
        if self.version and self.connection:
            directory = f"{DIRECTORY}-nfs{self.version.replace('.', '')}-{self.connection}"
            rig.shapes("--keep", *options, v6=self.v6, timeout=280)
            rig.check_files(directory)
            rig.backend.remove_tree(directory)
        else:
            rig.shapes(*options, v6=self.v6, timeout=900)
        if rig.gateway:
            metrics = rig.gateway.metrics()
            metrics.lint()
            if metrics.total("causeway_rpcrdma_credit_violations_total") != 0:
                raise LabError("causewayd counted credit violations")


@dataclass(frozen=True)
class Load:
    """causeway-load on files of the export; `options` beside its scenario."""

    options: tuple[str, ...] = ()

    def body(self, rig: NfsRig) -> None:
        before = rig.backend.names(".")
        report = rig.load("--seconds", "2", "--files", "4", "--file-size", "1m", *self.options, timeout=60)
        counts = {name: report[name] for name in ("wrong", "failed", "unanswered", "lost")}
        if any(counts.values()):
            raise LabError(f"the load ended with {counts}")
        calls = {kind["operation"]: kind["calls"] for kind in report["mix"]}
        if sorted(calls) != ["getattr", "read", "write"] or not all(calls.values()):
            raise LabError(f"calls of each kind: {calls}")
        if rig.backend.names(".") != before:
            raise LabError(f"the load left something in the export: {rig.backend.names('.')}")
        assert rig.gateway
        backend_calls = rig.gateway.metrics().total("causeway_backend_calls_total")
        if backend_calls < report["calls"]:
            raise LabError(f"causewayd passed on {backend_calls:.0f} calls, the load had answers to {report['calls']}")


@dataclass(frozen=True)
class Cut:
    """Calls that must not be done twice, each repeated on a new connection because the first one was cut."""

    calls: int

    def body(self, rig: NfsRig) -> None:
        try:
            rig.shapes("--nfs", "3", "--cut", str(self.calls), v6=False, timeout=100 + self.calls / 5)
        finally:
            if rig.gateway:
                (rig.logs / "metrics.log").write_text(rig.gateway.metrics().text, encoding="utf-8")
        if f"{DIRECTORY}-cut" in rig.backend.names("."):
            raise LabError("the server's directory is still there")
        if rig.gateway and rig.gateway.metrics().total("causeway_connections_total") < self.calls:
            raise LabError("the gateway has not seen a connection for each call")


CONNECTIONS = ("whole", "segments", "pieces", "small", "silent")


def nfs_client_cases() -> list[Case]:
    """The default run: a quick pass over the kernel's RDMA server and over the gateway. --full: every kind of connection, IPv4 and IPv6, both MTUs."""
    cases: list[Case] = []
    for backend in ("svcrdma", "ganesha", "knfsd"):
        for mtu in (4096, 1024):
            wire = Wire("nfs-client", "tap" if backend == "svcrdma" else "veth", mtu, backend)
            for version in ("3", "4.1"):
                if mtu == 4096 and (backend == "svcrdma" or (backend == "ganesha" and version == "4.1")):
                    quick = Shapes(version, "segments" if version == "3" else "whole", quick=True)
                    cases.append(_case(f"shapes-quick-nfs{version}", wire, quick.body, True))
                if mtu == 4096 and version == "3":
                    # The kernel's own NFS/RDMA server shows that the test asks for what is done without a gateway.
                    cases.append(_case("cut-nfs3", wire, Cut(300).body, backend != "svcrdma"))
                    cases.append(_case("long-cut-nfs3", wire, Cut(10_000).body))
                if backend == "ganesha" and mtu == 4096 and version == "3":
                    cases.append(_case("load-nfs3", wire, Load().body, True))
                    cases.append(_case("load-nfs3-stable", wire, Load(("--stable", "--sequential", "--rate", "500")).body))
                    cases.append(_case("load-nfs3-faults", wire, Load(("--loss", "5", "--reorder", "5")).body))
                for connection in CONNECTIONS:
                    cases.append(_case(f"shapes-{connection}-nfs{version}", wire, Shapes(version, connection).body))
                    cases.append(_case(f"shapes-{connection}-nfs{version}v6", wire, Shapes(version, connection, v6=True).body))
    return cases + _iwarp_cases()


def _iwarp_cases() -> list[Case]:
    """The same client on the other wire: the kernel's server over siw, and causewayd."""
    cases: list[Case] = []
    kernel = Wire("nfs-client", "siw", 0, "svcrdma")
    for version in ("3", "4.1"):
        quick = Shapes(version, "segments" if version == "3" else "whole", quick=True)
        cases.append(_case(f"shapes-quick-nfs{version}", kernel, quick.body, version == "3"))
        for connection in CONNECTIONS:
            cases.append(_case(f"shapes-{connection}-nfs{version}", kernel, Shapes(version, connection).body))
            cases.append(_case(f"shapes-{connection}-nfs{version}v6", kernel, Shapes(version, connection, v6=True).body))
    cases.append(_case("cut-nfs3", kernel, Cut(300).body))
    behind = Wire("nfs-client", "siw", 0, "ganesha")
    for version in ("3", "4.1"):
        for connection in CONNECTIONS:
            cases.append(_case(f"shapes-{connection}-nfs{version}", behind, Shapes(version, connection).body))
    cases.append(_case("cut-nfs3", behind, Cut(300).body))
    cases.append(_case("load-nfs3", behind, Load().body))
    cases.append(_case("load-nfs3-stable", behind, Load(("--stable", "--sequential", "--rate", "500")).body))
    return cases


def _case(name: str, wire: Wire, body: Callable[[NfsRig], None], quick: bool = False) -> Case:
    return Case(f"{name}-{wire.name}", wire, body, quick)  # type: ignore[arg-type]
