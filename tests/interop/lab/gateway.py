"""causewayd under test: its configuration, start, crash, restart and metrics."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from lab import metrics, network
from lab.daemon import Daemon, LabError
from lab.gateway_config import gateway_config
from lab.guest import Nic
from lab.sandbox import RUN

PORT = 20049
METRICS = "127.0.0.1:9464"


def config_text(
    *,
    poll_lcores: object,
    device: str,
    mtu: int,
    addresses: str,
    backend: str,
    admin: object,
    metrics: str = METRICS,
    instance: str = "interop",
    memory: str = "memory_mb = 512",
    backend_extra: str = "",
    transport: str = "roce",
    rdma: str = "",
    hugepages: bool = False,
    listen: int = PORT,
    extra: str = "",
) -> str:
    """In front of an NFS server at `backend`; `addresses`, `memory` and `backend_extra` are lines, `extra` sections. `rdma` is the listener's
    device."""
    return gateway_config(
        instance=instance,
        main_lcore=0,
        poll_lcores=poll_lcores,
        dataplane=f"hugepages = {str(hugepages).lower()}\n{memory}",
        device=device,
        mtu=mtu,
        port=addresses,
        listener=f'port = {listen}\ntransport = "{transport}"' + (f'\ndevice = "{rdma}"' if rdma else ""),
        backend_name="nfs",
        backend=f'type = "tcp"\naddress = "{backend}"\n{backend_extra}',
        admin=admin,
        metrics=metrics,
        extra=f'{extra}\n[log]\nlevel = "info"',
    )


def default_program() -> Path:
    root = Path(__file__).resolve().parents[3]
    return Path(os.environ.get("CAUSEWAYD", root / "build/apps/causewayd"))


def device_of(nic: Nic) -> str:
    """The DPDK device at the other end of the guest's NIC."""
    if nic.kind == "vhost":
        return f"net_vhost0,iface={nic.socket},queues=1"
    if nic.shares == "af_xdp":
        return f"net_af_xdp0,iface={network.SHARED}"
    if nic.shares == "siw":
        return "net_null0"  # nothing comes by it
    return f"net_af_packet0,iface={nic.tap},framesz=8192,blocksz=65536,framecnt=512"


def addresses_of(nic: Nic) -> str:
    """The lines of the port's section about its addresses, and about what the kernel has of them."""
    if nic.shares == "af_xdp":
        return "beside_kernel = true"  # those that the kernel has
    if nic.shares == "siw":
        return 'addresses = ["198.51.100.1/24"]'
    own = f'addresses = ["{network.GATEWAY}/24", "{network.GATEWAY_V6}/64"]'
    return own + (f'\nexception_tap = "{network.SHARED}"' if nic.shares else "")


def load_program() -> Path:
    root = Path(__file__).resolve().parents[3]
    return Path(os.environ.get("CAUSEWAY_LOAD", root / "build/apps/load/causeway-load"))


class Gateway:
    def __init__(self, nic: Nic, logs: Path, backend: str) -> None:
        self.nic = nic
        self._admin = RUN / "admin.sock"
        program = default_program()
        if not program.exists():
            raise LabError(f"no {program}: build it, or name it in CAUSEWAYD")
        config = self._config = RUN / "causeway.toml"
        config.write_text(
            config_text(
                poll_lcores=min(1, (os.cpu_count() or 1) - 1),
                device=device_of(nic),
                mtu=nic.mtu,
                addresses=addresses_of(nic),
                backend=backend,
                admin=self._admin,
                transport="iwarp" if nic.shares == "siw" else "roce",
            )
        )
        self._daemon = Daemon("causewayd", [str(program), "--config", str(config)], logs / "causewayd.log")

    def start(self, timeout: float = 30) -> None:
        # After SIGKILL the sockets stay behind, and DPDK's vhost does not bind over an existing file.
        for left in (self.nic.socket, self._admin):
            if left is not None:
                left.unlink(missing_ok=True)
        self._daemon.start()
        self._daemon.wait_for_line(r"^causewayd: ready", timeout)

    def use_hugepages(self, wanted: bool) -> None:
        """From the next start on. There have to be some."""
        text = self._config.read_text()
        self._config.write_text(text.replace(f"hugepages = {str(not wanted).lower()}", f"hugepages = {str(wanted).lower()}"))

    @property
    def pid(self) -> int:
        return self._daemon.pid

    def check_alive(self) -> None:
        if not self._daemon.alive():
            raise LabError(f"causewayd is gone ({self._daemon.exit_text()}), last lines:\n{self._daemon.tail()}")

    def terminate(self) -> None:
        """SIGTERM has to end it in good order."""
        status = self._daemon.stop(15)
        if status != 0:
            raise LabError(f"causewayd, asked to end by SIGTERM: {self._daemon.exit_text()}")

    def kill(self) -> None:
        self._daemon.kill()

    def stop(self) -> None:
        self._daemon.stop(5)

    def ctl(self, *words: str, timeout: float = 90) -> str:
        """What causewayctl says."""
        program = default_program().parent.parent / "apps/causewayctl"
        result = subprocess.run(
            [str(program), "--socket", str(self._admin), *words], capture_output=True, text=True, timeout=timeout, check=False
        )
        if result.returncode != 0:
            raise LabError(f"causewayctl {' '.join(words)}: {result.stderr.strip()}")
        return result.stdout

    def connections(self) -> list[dict[str, Any]]:
        """What `causewayctl connections` says."""
        return list(json.loads(self.ctl("--json", "connections", timeout=10))["connections"])

    def metrics(self) -> metrics.Metrics:
        self.check_alive()
        return metrics.scrape(METRICS)
