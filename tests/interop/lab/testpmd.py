"""dpdk-testpmd in causewayd's place: answers ARP and ping, which proves the guest's wiring by itself."""

from pathlib import Path

from lab import image
from lab.daemon import Daemon
from lab.gateway import device_of
from lab.guest import Nic


class TestPmd:
    def __init__(self, nic: Nic, logs: Path) -> None:
        self.nic = nic
        # One mbuf has to hold a whole af_packet frame, hence --mbuf-size. No --max-pkt-len: the af_packet PMD of
        # DPDK 22.11 says it takes 1518 bytes at most, refuses to be configured for more, and carries them anyway.
        command = [
            str(image.TESTPMD),
            "--no-huge",
            "-m",
            "256",
            "--no-pci",
            "-l",
            "0,1",
            "--no-telemetry",
            "--file-prefix",
            "wiring",
            "--vdev",
            device_of(nic),
            "--",
            "--forward-mode=icmpecho",
            "--auto-start",
            "--stats-period=60",
            "--mbuf-size=9216",
            "--total-num-mbufs=4096",
            "--port-topology=loop",
            "--no-mlockall",
        ]
        self._daemon = Daemon("testpmd", command, logs / "testpmd.log")

    def start(self) -> None:
        if self.nic.socket is not None:
            self.nic.socket.unlink(missing_ok=True)
        self._daemon.start()
        self._daemon.wait_for_line(r"icmpecho packet forwarding", 30)

    def kill(self) -> None:
        self._daemon.kill()

    def stop(self) -> None:
        self._daemon.stop(5)
