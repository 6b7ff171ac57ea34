#!/usr/bin/env python3
"""The ops suite: causewayd, causewayctl, causeway-load and deploy/quickstart.sh as an operator runs them.

Prints `ok NAME (seconds)`, `FAIL NAME: reason` or `skip NAME: reason` for each case, and `N passed, N failed` at the end; `again NAME:
reason` for one that failed and has a second try, which comes last and has the machine to itself.

Most cases wait most of their time, so several run side by side, each with a directory, links and ports to itself. A module names in
ALONE those that want the machine to themselves: they come last, one by one.
"""

import argparse
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Callable

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import backend_cases  # noqa: E402
import configuration_cases  # noqa: E402
import container_cases  # noqa: E402
import cores_cases  # noqa: E402
import ctl_cases  # noqa: E402
import deployment_cases  # noqa: E402
import drill_backend_cases  # noqa: E402
import drill_client_cases  # noqa: E402
import drill_isolation_cases  # noqa: E402
import drill_process_cases  # noqa: E402
import drill_resource_cases  # noqa: E402
import guide_cases  # noqa: E402
import ipsec_cases  # noqa: E402
import iwarp_cases  # noqa: E402
import kubernetes_cases  # noqa: E402
import load_cases  # noqa: E402
import monitoring_cases  # noqa: E402
import observation_cases  # noqa: E402
import page_cases  # noqa: E402
import pktgen_cases  # noqa: E402
import program_cases  # noqa: E402
import quickstart_cases  # noqa: E402
import report_cases  # noqa: E402
import requirement_cases  # noqa: E402
import service_cases  # noqa: E402
import start_cases  # noqa: E402
import trouble_cases  # noqa: E402
from harness import CPUS, Box, LabError, Skip, take_ports  # noqa: E402

Case = tuple[str, Callable[[Box], None]]

LANES = 3 if len(CPUS) > 1 else 1

MODULES = (
    container_cases,  # the first of them takes longest
    program_cases,
    configuration_cases,
    backend_cases,
    start_cases,
    iwarp_cases,
    ipsec_cases,
    service_cases,
    observation_cases,
    ctl_cases,
    report_cases,
    requirement_cases,
    page_cases,
    monitoring_cases,
    trouble_cases,
    drill_backend_cases,
    drill_process_cases,
    drill_resource_cases,
    drill_client_cases,
    drill_isolation_cases,
    cores_cases,
    load_cases,
    guide_cases,
    pktgen_cases,
    deployment_cases,
    kubernetes_cases,
    quickstart_cases,
)


def all_cases() -> list[Case]:
    return [case for module in MODULES for case in module.CASES]


def names_of_those_alone() -> set[str]:
    return {name for module in MODULES for name in getattr(module, "ALONE", ())}


def _where(error: Exception) -> str:
    """The line of the case that an error comes from which does not say so itself."""
    if isinstance(error, LabError):
        return ""
    own = [each for each in traceback.extract_tb(error.__traceback__) if Path(each.filename).parent == HERE and each.name != "run_case"]
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno}: {own[-1].line})" if own else ""


def run_case(case: Case, box: Box, of_failure: Callable[[], str]) -> str:
    """'ok', what `of_failure` says ('FAIL' or 'again') or 'skip'; prints the line."""
    name, body = case
    start = time.monotonic()
    try:
        try:
            body(box)
        finally:
            box.close()
    except Skip as reason:
        print(f"skip {name}: {reason}", flush=True)
        return "skip"
    except (LabError, OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        outcome = of_failure()
        print(f"{outcome} {name}: {error}{_where(error)}\n     logs: {box.directory}", flush=True)
        return outcome
    print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
    return "ok"


class Runner:
    """Runs cases, by their place in the list of all."""

    def __init__(self, cases: list[Case], build: Path, work: Path, second_tries: int) -> None:
        self._cases = cases
        self._build = build
        self._work = work
        # Forked, so that each process has the cases.
        self._context = multiprocessing.get_context("fork")
        self._second_tries = self._context.Value("i", second_tries)  # left

    def _after_first_failure(self) -> str:
        with self._second_tries.get_lock():
            self._second_tries.value -= 1
            return "again" if self._second_tries.value >= 0 else "FAIL"

    def run(self, index: int, first: bool = True) -> str:
        take_ports(index)
        box = Box(self._build, self._work / (str(index) if first else f"{index}-again"))
        outcome = run_case(self._cases[index], box, self._after_first_failure if first else lambda: "FAIL")
        if outcome not in ("FAIL", "again"):
            shutil.rmtree(box.directory, ignore_errors=True)
        return outcome

    def run_all(self, lanes: int) -> dict[str, int]:
        """How many of each outcome."""
        alone = names_of_those_alone()
        places = range(len(self._cases))
        beside = [index for index in places if self._cases[index][0] not in alone] if lanes > 1 else []
        outcomes = self._run_beside(beside, min(lanes, len(beside)))
        outcomes.update({index: self.run(index) for index in places if index not in beside})
        outcomes.update({index: self.run(index, first=False) for index, outcome in outcomes.items() if outcome == "again"})
        said = list(outcomes.values())
        return {outcome: said.count(outcome) for outcome in ("ok", "FAIL", "skip")}

    def _run_beside(self, indices: list[int], lanes: int) -> dict[int, str]:
        """The outcome of each. In processes: a case may change what belongs to the whole of one."""
        next_turn = self._context.Value("i", 0)
        outcomes = self._context.SimpleQueue()

        def lane() -> None:
            while True:
                with next_turn.get_lock():
                    turn = next_turn.value
                    next_turn.value += 1
                if turn >= len(indices):
                    return
                outcomes.put((indices[turn], self.run(indices[turn])))

        processes = [self._context.Process(target=lane) for _ in range(lanes)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        known = {index: "FAIL" for index in indices}  # those whose lane died of them
        while not outcomes.empty():
            index, outcome = outcomes.get()
            known[index] = outcome
        return known


def main() -> int:
    # A shell that starts us in the background leaves it ignored, and so would every program that a case interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, metavar="BUILD_DIR", help="where the programs are built")
    parser.add_argument("-k", metavar="NAME", default="", help="cases whose name contains NAME")
    parser.add_argument("-j", "--jobs", metavar="N", type=int, default=LANES, help="cases side by side (default: %(default)s)")
    parser.add_argument(
        "--soak", metavar="MINUTES", type=float, help="only the soak, for so long, with what is held after each round"
    )
    parser.add_argument(
        "--second-tries",
        metavar="N",
        type=int,
        default=0,
        help="so many cases that fail are tried once more; the output says which",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases and end")
    options = parser.parse_args()
    if options.soak is not None:
        os.environ[drill_client_cases.SOAK] = str(int(options.soak * 60))
        options.k = options.k or "soak"
    cases = [case for case in all_cases() if options.k in case[0]]
    if options.list:
        print("\n".join(name for name, _ in cases))
        return 0
    # Short, since UNIX socket paths are; open to the user that the quickstart case changes to.
    work = Path(tempfile.mkdtemp(prefix="cw-ops-"))
    work.chmod(0o755)
    counts = Runner(cases, options.build.resolve(), work, options.second_tries).run_all(options.jobs)
    if counts["FAIL"] == 0:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{counts['ok']} passed, {counts['FAIL']} failed", flush=True)
    return 1 if counts["FAIL"] or not counts["ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
