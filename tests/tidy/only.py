#!/usr/bin/env python3
"""Runs what is called NAME, in whichever suite, and builds no more than it takes: only.py BUILD_DIR NAME

A GoogleTest case (Suite.Name), a program of `meson test`, a case of ops or of interop. Without an exact match, whatever has NAME in its name.
Prints `ok NAME`, `FAIL NAME: reason` or `skip NAME: reason`; the last line is `N passed, N failed`.
"""
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from outcomes import LINE, OF_LINE, Outcome, from_junit, from_log
from test_cases import cases_of

ROOT = Path(__file__).resolve().parents[2]
WORDS = {word: said for said, word in OF_LINE.items()}
OPS = [sys.executable, str(ROOT / "tests/ops/run.py")]
INTEROP = [sys.executable, str(ROOT / "tests/interop/run.py")]


@dataclass
class Found:
    googletest: dict[str, list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )  # by program, as a path in the build directory
    programs: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    interop: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.googletest or self.programs or self.ops or self.interop)


def lines_of(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def introspect(build: Path, what: str) -> list[dict]:
    return json.loads((build / f"meson-info/intro-{what}.json").read_text(encoding="utf-8"))


def googletest_cases(build: Path) -> dict[str, list[str]]:
    """By program, those of its sources that are tests."""
    tests = {test["cmd"][0] for test in introspect(build, "tests") if test["protocol"] == "gtest"}
    cases: dict[str, list[str]] = {}
    for target in introspect(build, "targets"):
        if target["filename"][0] in tests:
            sources = {source for group in target["target_sources"] for source in group.get("sources", [])}
            paths = [Path(source) for source in sorted(sources) if Path(source).is_relative_to(ROOT / "tests")]
            program = str(Path(target["filename"][0]).relative_to(build))
            cases[program] = [case.name for path in paths for case in cases_of(path, ROOT)]
    return cases


def find(build: Path, name: str) -> Found:
    cases = googletest_cases(build)
    programs = [test["name"] for test in introspect(build, "tests") if test["protocol"] != "gtest"]
    ops = lines_of(*OPS, str(build), "--list")
    interop = lines_of(*INTEROP, "--full", "--list")
    for matches in (lambda one: one == name, lambda one: name.lower() in one.lower()):
        found = Found(
            programs=[one for one in programs if matches(one)],
            ops=[one for one in ops if matches(one)],
            interop=[one for one in interop if matches(one)],
        )
        for program, names in cases.items():
            if chosen := [one for one in names if matches(one)]:
                found.googletest[program] = chosen
        if found:
            return found
    return Found()


def make(build: Path, targets: list[str]) -> None:
    if subprocess.run(["ninja", "-C", str(build), "--quiet", *targets], check=False).returncode != 0:
        sys.exit("FAIL: it does not compile\n0 passed, 1 failed")


def run_googletest(build: Path, program: str, names: list[str]) -> list[Outcome]:
    make(build, [program])
    # Instances of parameterized tests: Instance/Suite.Name/parameter.
    pattern = ":".join(f"{name}:*/{name}/*" for name in names)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        run = subprocess.run(
            [str(build / program), f"--gtest_filter={pattern}", f"--gtest_output=xml:{report}", "--gtest_brief=1"],
            cwd=build,
            check=False,
        )
        outcomes = from_junit("only", report)
    outcomes = [one for one in outcomes if one.reason != "the test is disabled"]
    if not outcomes or (run.returncode != 0 and all(one.outcome != "failed" for one in outcomes)):
        outcomes.append(Outcome("only", program, "failed", f"exit status {run.returncode}"))
    return outcomes


def run_programs(build: Path, names: list[str]) -> list[Outcome]:
    report = build / "meson-logs/testlog.junit.xml"
    report.unlink(missing_ok=True)
    subprocess.run(
        ["meson", "test", "-C", str(build), "--quiet", "--print-errorlogs", "--timeout-multiplier", "3", *names], check=False
    )
    return from_junit("only", report) or [Outcome("only", names[0], "failed", "did not run")]


def run_cases(command: list[str]) -> list[Outcome]:
    """A runner that prints its cases itself."""
    with tempfile.NamedTemporaryFile("w+", encoding="utf-8") as log:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                if not LINE.match(line):
                    print(line, end="", flush=True)
        log.flush()
        return from_log("only", Path(log.name))


def main() -> int:
    build, name = Path(sys.argv[1]).resolve(), sys.argv[2]
    found = find(build, name)
    outcomes = [one for program, names in found.googletest.items() for one in run_googletest(build, program, names)]
    if found.programs:
        outcomes += run_programs(build, found.programs)
    if found.ops or found.interop:
        make(
            build,
            [
                str(Path(target["filename"][0]).relative_to(build))
                for target in introspect(build, "targets")
                if target["type"] == "executable"
                and not any(part in ("unit", "fuzz", "golden", "bench") for part in Path(target["defined_in"]).parts)
            ],
        )
    for case in found.ops:
        outcomes += run_cases([*OPS, str(build), "-k", case])
    if found.interop and os.geteuid() != 0:
        outcomes += [Outcome("only", case, "skipped", "takes root") for case in found.interop]
    elif found.interop:
        outcomes += run_cases([*INTEROP, *(word for case in found.interop for word in ("-k", case))])
    for one in outcomes:
        print(f"{WORDS[one.outcome]} {one.test}" + (f": {one.reason}" if one.reason else ""))
    if not outcomes:
        print(f"FAIL {name}: no test, program or case is called so")
        outcomes = [Outcome("only", name, "failed")]
    passed = sum(one.outcome == "passed" for one in outcomes)
    failed = sum(one.outcome == "failed" for one in outcomes)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
