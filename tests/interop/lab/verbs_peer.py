"""causeway-verbs-peer in causewayd's place: the counterpart of rping and perftest, one run for each test."""

import json
import os
from pathlib import Path
from typing import Any, Optional

from lab import network
from lab.daemon import Daemon, LabError, wait_until
from lab.gateway import device_of
from lab.guest import Aside, Nic


def default_program() -> Path:
    root = Path(__file__).resolve().parents[3]
    return Path(os.environ.get("CAUSEWAY_VERBS_PEER", root / "build/tests/peers/causeway-verbs-peer"))


class VerbsPeer:
    def __init__(self, nic: Nic, logs: Path) -> None:
        self.nic = nic
        self._logs = logs
        self._program = default_program()
        if not self._program.exists():
            raise LabError(f"no {self._program}: build it, or name it in CAUSEWAY_VERBS_PEER")
        self._daemon = Daemon("causeway-verbs-peer", [], logs / "verbs-peer.log")

    def start(self, *arguments: str, timeout: int = 60, v6: bool = False) -> None:
        """Starts one test; returns when the program answers on the link."""
        if self.nic.socket is not None:
            self.nic.socket.unlink(missing_ok=True)
        address = f"{network.GATEWAY_V6}/64" if v6 else f"{network.GATEWAY}/24"
        link = ["--device", device_of(self.nic), "--address", address, "--mtu", str(self.nic.mtu)]
        self._daemon = Daemon(
            "causeway-verbs-peer",
            [
                str(self._program),
                *(["--transport", "iwarp"] if self.nic.shares == "siw" else link),
                "--lcore",
                str(min(1, (os.cpu_count() or 1) - 1)),
                "--timeout",
                str(timeout),
                "--stay",
                *arguments,
            ],
            self._logs / "verbs-peer.log",
        )
        self._daemon.start()
        self._daemon.wait_for_line(r"^causeway-verbs-peer: ready", 30)

    def result(self, timeout: float = 60, tool: Optional[Aside] = None) -> dict[str, Any]:
        """Waits for the end of the test, then for that of the guest's tool, which may need us until then, and ends the
        program. What it reported; anything but success is an error."""

        def over() -> bool:
            return not self._daemon.alive() or "\nresult " in self._daemon.output()

        try:
            wait_until(over, timeout, "causeway-verbs-peer: end of the test")
            if tool:
                tool.result()
        finally:
            status = self._daemon.stop(5)
        for line in self._daemon.output().splitlines():
            if line.startswith("result "):
                report: dict[str, Any] = json.loads(line.removeprefix("result "))
                if status == 0 and report["ok"]:
                    return report
        raise LabError(f"causeway-verbs-peer: {self._daemon.exit_text()}, last lines:\n{self._daemon.tail(4)}")

    def ending(self) -> str:
        """Ends the test early and says what its side of the story is."""
        self._daemon.stop(5)
        return f"causeway-verbs-peer: {self._daemon.exit_text()}, last lines:\n{self._daemon.tail(4)}"

    def stop(self) -> None:
        self._daemon.stop(5)
