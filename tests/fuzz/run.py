#!/usr/bin/env python3
"""Fuzzes for a bounded time: run.py BUILD_DIR [--seconds N | --runs N] [-k NAME] [--keep]

BUILD_DIR is configured with -Dfuzz=true (see meson.build). Each target starts from its committed corpus and runs N seconds (60),
as many side by side as there are CPUs. Prints `ok NAME: executions, edges reached of those there are` or `FAIL NAME: reason, input
that shows it`; the last line is `N passed, N failed`. What was found stays in BUILD_DIR/fuzz; with --keep, inputs that reach what
the corpus does not reach, smallest first, are added to it as long as it stays small. With --runs, each target runs N executions,
one target after the other, without libFuzzer's entropic schedule: its bookkeeping is three quarters of the time of a short execution.

BUILD_DIR/fuzz/NAME.log grows while a target runs. SIGTERM and SIGINT end the run: the target under way says how far it came.
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"
KEPT_BYTES_MAX = 12 * 1024  # of one target's corpus
KEPT_FILES_MAX = 48
# Targets build whole hosts for each input. A fifth of their time went into giving memory back to the kernel and getting it again.
KEEPS_MEMORY = {**os.environ, "MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}
GRACE_SECONDS = 120  # for the corpus to be read and the last input to end

EXECUTIONS = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
PROGRESS = re.compile(r"^#(\d+)\s", re.M)
COVERED = re.compile(r"cov: (\d+) ft: (\d+)")
EDGES = re.compile(r"\((\d+) inline 8-bit counters\)")
# An input that was slow is written down, too: on a machine that others use that says nothing.
CRASH = re.compile(r"Test unit written to (?!\S*-slow-unit-)(\S+)")


running: set[subprocess.Popen] = set()
is_stopped = False


def stop(*_) -> None:
    global is_stopped
    is_stopped = True
    for target in list(running):
        target.terminate()  # libFuzzer then prints its final statistics


@dataclass
class Result:
    name: str
    executions: int
    covered: int
    edges: int
    problem: str

    def __str__(self) -> str:
        if self.problem:
            return f"FAIL {self.name}: {self.problem}"
        share = 100 * self.covered / max(self.edges, 1)
        return f"ok {self.name}: {self.executions:,} executions, {self.covered:,} of {self.edges:,} edges ({share:.0f} %)"


def input_bytes_max(name: str) -> list[str]:
    """Longer inputs find nothing that shorter ones do not, and cost more: the target says how long."""
    bound = re.search(r"kInputBytesMax = ([\d']+);", (CORPUS.parent / f"{name}_fuzz.cc").read_text(encoding="utf-8"))
    return [f"-max_len={bound.group(1).replace(chr(39), '')}"] if bound else []


def fuzz(target: Path, name: str, work: Path, seconds: int, runs: int) -> Result:
    found = work / name
    found.mkdir(parents=True, exist_ok=True)
    until = [f"-runs={runs}", "-entropic=0"] if runs else [f"-max_total_time={seconds}"]
    command = [
        str(target),
        *until,
        *input_bytes_max(name),
        "-print_final_stats=1",
        "-timeout=20",
        "-rss_limit_mb=2048",
        f"-artifact_prefix={work}/{name}-",
        str(found),
        str(CORPUS / name),
    ]
    if is_stopped:
        return Result(name, 0, 0, 0, "not begun")
    log = work / f"{name}.log"
    ended_in_time = True
    with (
        log.open("w", encoding="utf-8") as said_to,
        subprocess.Popen(command, env=KEEPS_MEMORY, stdout=subprocess.DEVNULL, stderr=said_to) as run,
    ):
        running.add(run)
        try:
            run.wait(None if runs else seconds + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            ended_in_time = False
            run.kill()
        running.discard(run)
    said = log.read_text(encoding="utf-8", errors="replace")
    executions, edges, covered = EXECUTIONS.search(said), EDGES.search(said), COVERED.findall(said)
    reached = int(executions.group(1)) if executions else max((int(count) for count in PROGRESS.findall(said)), default=0)
    problem = ""
    crash = CRASH.search(said)
    if crash:
        problem = crash.group(1)
    elif is_stopped or not ended_in_time:
        problem = f"{'was stopped' if is_stopped else 'did not end in time'}, {reached:,} executions"
    elif run.returncode != 0:
        problem = f"exit status {run.returncode}, see {log}"
    elif not executions or not covered:
        problem = f"said nothing about its executions, see {log}"
    return Result(name, reached, int(covered[-1][0]) if covered else 0, int(edges.group(1)) if edges else 0, problem)


def keep(target: Path, name: str, work: Path) -> None:
    """libFuzzer's own merge says which inputs add something; the corpus takes them while there is room."""
    merged = work / f"{name}.merged"
    shutil.rmtree(merged, ignore_errors=True)
    shutil.copytree(CORPUS / name, merged)
    known = {file.name for file in merged.iterdir()}
    subprocess.run([str(target), "-merge=1", str(merged), str(work / name)], capture_output=True, timeout=600, check=False)
    there = list((CORPUS / name).iterdir())
    room = KEPT_BYTES_MAX - sum(file.stat().st_size for file in there)
    places = KEPT_FILES_MAX - len(there)
    for file in sorted(merged.iterdir(), key=lambda file: file.stat().st_size):
        if file.name not in known and file.stat().st_size <= room and places > 0:
            room -= file.stat().st_size
            places -= 1
            shutil.copy(file, CORPUS / name / file.name[:12])


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzzes each target for a bounded time.")
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("-k", metavar="NAME", default="")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    targets = {path.name.removesuffix("_fuzz"): path for path in sorted((options.build / "tests/fuzz").glob("*_fuzz"))}
    targets = {name: path for name, path in targets.items() if options.k in name}
    work = options.build.resolve() / "fuzz"
    work.mkdir(exist_ok=True)
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, stop)
    failed = 0
    with ThreadPoolExecutor(max_workers=1 if options.runs else os.cpu_count()) as pool:
        for result in pool.map(lambda item: fuzz(item[1], item[0], work, options.seconds, options.runs), targets.items()):
            print(result, flush=True)
            failed += 1 if result.problem else 0
    if options.keep:
        for name, path in targets.items():
            keep(path, name, work)
    print(f"{len(targets) - failed} passed, {failed} failed")
    return 1 if failed or not targets else 0


if __name__ == "__main__":
    sys.exit(main())
