"""Several rigs side by side. Cases that share a wire, hence a rig, are one group; a group is this program again with the names of its
cases, in a sandbox of its own. Much of a case is waiting, for a boot, a time-out, a reconnection, so that two groups share two CPUs well.
"""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Iterable, Optional, Sequence

from lab.cases import Case
from lab.rig import Wire

COUNTS = re.compile(r"^(\d+) passed, (\d+) failed$")
INTERRUPTED = 130

Group = list[Case]


def groups_of(cases: Sequence[Case]) -> list[Group]:
    """In the order of the cases; those without a wire are groups by themselves."""
    groups: dict[Optional[Wire], Group] = {}
    alone: list[Group] = []
    for case in cases:
        if case.wire is None:
            alone.append([case])
        else:
            groups.setdefault(case.wire, []).append(case)
    return list(groups.values()) + alone


class Lanes:
    def __init__(self, groups: Iterable[Group], logs: Path, options: Sequence[str]) -> None:
        """options: what each group's command line has besides the names."""
        self._logs = logs
        self._options = list(options)
        self._lock = threading.Lock()  # of all below
        self._waiting = list(enumerate(groups, start=1))
        self._results: dict[int, list[object]] = {}
        self._running: set["subprocess.Popen[str]"] = set()
        self._interrupted = False
        self.passed = 0
        self.failed = 0

    def run(self, count: int) -> bool:
        """False when it was interrupted."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the groups get it too, and end in their own way
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._end)
        lanes = [threading.Thread(target=self._lane) for _ in range(count)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
        return not self._interrupted

    def results(self) -> list[object]:
        """What the groups wrote as their results, in the order of the groups."""
        return list(itertools.chain.from_iterable(self._results[number] for number in sorted(self._results)))

    def _lane(self) -> None:
        while True:
            with self._lock:
                if not self._waiting or self._interrupted:
                    return
                number, group = self._waiting.pop(0)
            self._run_group(number, group)

    def _run_group(self, number: int, group: Group) -> None:
        wire = group[0].wire
        logs = self._logs / f"{number:02}-{f'{wire.kind}-{wire.name}' if wire else group[0].name}"
        names = [word for case in group for word in ("-k", case.name)]
        # pdeathsig: nothing outlives the run, however it ends.
        command = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            sys.executable,
            sys.argv[0],
            *self._options,
            "--jobs",
            "1",
            *names,
            "--results",
            str(logs / "results.json"),
        ]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "CAUSEWAY_LOGS": str(logs)}
        ) as process:
            with self._lock:
                self._running.add(process)
            assert process.stdout is not None
            counts = None
            for line in process.stdout:
                counts = COUNTS.match(line) or counts
                if not COUNTS.match(line):
                    print(line, end="", flush=True)
        passed, failed = (int(counts[1]), int(counts[2])) if counts else (0, 0)
        with self._lock:
            self._running.discard(process)
            self._interrupted = self._interrupted or process.returncode == INTERRUPTED
            self.passed += passed
            self.failed += failed
            if not self._interrupted:
                self.failed += len(group) - passed - failed  # those it did not come to
            if (logs / "results.json").exists():
                self._results[number] = json.loads((logs / "results.json").read_text(encoding="utf-8"))["cases"]

    def _end(self, number: int, _frame: object) -> None:
        # No lock: this is the main thread, in the midst of anything.
        for process in list(self._running):
            process.terminate()
        os._exit(128 + number)
