"""A background program: started with its output in a log file, watched, stopped within a time limit."""

import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, Mapping, Optional, Sequence


class LabError(Exception):
    """Something in the lab, or in what it tests, did not behave; the text says what."""


def patient(timeout: float) -> float:
    """A machine of a test suite may be several times slower than the one where a time limit was chosen. A limit is there to end what would
    never end; it is no measure of speed."""
    return min(3 * timeout, timeout + 60)


def wait_until(condition: Callable[[], bool], timeout: float, what: str, interval: float = 0.1) -> None:
    limit = patient(timeout)
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"{what}: not within {limit:g} s")
        time.sleep(interval)


class Daemon:
    def __init__(self, name: str, argv: Sequence[str], log: Path, env: Optional[Mapping[str, str]] = None) -> None:
        self.name = name
        self.argv = list(argv)
        self.log = log
        self.env = env
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._log_start = 0

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            log.write(f"--- {' '.join(self.argv)}\n".encode())
            log.flush()
            self._log_start = log.tell()
            # A session of its own: Ctrl-C reaches the runner only, which then ends things in order.
            self._process = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=self.env, start_new_session=True
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        """What it printed since its last start."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def wait_for_line(self, pattern: str, timeout: float) -> None:
        expression = re.compile(pattern, re.MULTILINE)

        def seen() -> bool:
            if expression.search(self.output()):
                return True
            if not self.alive():
                raise LabError(f"{self.name} ended early ({self.exit_text()}), last lines:\n{self.tail()}")
            return False

        wait_until(seen, timeout, f"{self.name}: line {pattern!r}")

    def wait_for(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        def met() -> bool:
            if not self.alive():
                raise LabError(f"{self.name} ended early ({self.exit_text()}), last lines:\n{self.tail()}")
            return condition()

        wait_until(met, timeout, f"{self.name}: {what}")

    def wait_for_end(self, timeout: float) -> None:
        wait_until(lambda: not self.alive(), timeout, f"{self.name}: end")

    def tail(self, lines: int = 8) -> str:
        return "\n".join(self.output().splitlines()[-lines:])

    def exit_text(self) -> str:
        code = self._process.poll() if self._process else None
        if code is None:
            return "running"
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"

    def stop(self, timeout: float = 10) -> int:
        """SIGTERM, and SIGKILL if that does not end it in time. Returns the exit status (negative: a signal)."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                return self.kill()
        return self._process.returncode

    def threads(self) -> str:
        """Where each of its threads is, for who asks why it does not end."""
        found = []
        for task in sorted(Path(f"/proc/{self.pid}/task").glob("*")):
            try:
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                found.append(f"{(task / 'comm').read_text().strip()}: {state} in {(task / 'wchan').read_text() or '0'}")
            except OSError:
                continue  # it has ended
        return "\n".join(found)

    def kill(self) -> int:
        if self._process is None:
            return 0
        self._process.kill()
        return self._process.wait(10)
