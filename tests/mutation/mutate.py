#!/usr/bin/env python3
"""Mutation testing of a source file, on request: which small changes of it does no unit test notice?

    tests/mutation/mutate.py FILE...                 every mutant of these files, against the tests of their folders (TESTS below)
    tests/mutation/mutate.py FILE --lines 40-80      mutants of these lines only
    tests/mutation/mutate.py FILE --list             the mutants, without running any
    tests/mutation/mutate.py FILE --tests PROGRAM... other test programs, as build targets

A mutant is one change of one line: a comparison at its boundary (< to <=) or reversed, && for ||, a negation or a "+ 1" left out, true for
false, a statement removed. Works on a copy of the tree in build-mutation, compiled without optimization; seconds a mutant. A mutant is killed
when a test fails, crashes or takes ten times as long as usual. Prints each survivor (progress goes to stderr); the last line is "N killed, N survived, N not compiled". A
survivor is a missing test, or a line that does not matter: the tool cannot tell, a reader has to.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build-mutation"
# Folder of the file: test programs that are about it, quickest first.
TESTS = {
    "base": ["tests/unit/base/base_test"],
    "rocev2/wire": ["tests/unit/wire/wire_test"],
    "rocev2/rc": ["tests/unit/rc/rc_test"],
    "rpcrdma/wire": ["tests/unit/rpcrdma/rpcrdma_test", "tests/unit/endpoint/endpoint_test"],
    "rpcrdma/rpc": ["tests/unit/rpcrdma/rpcrdma_test"],
    "rpcrdma/ulb": ["tests/unit/rpcrdma/rpcrdma_test", "tests/unit/endpoint/endpoint_test"],
    "rpcrdma/endpoint": ["tests/unit/endpoint/endpoint_test"],
    "control/cm": ["tests/unit/cm/cm_test"],
    "control/config": ["tests/unit/control/control_test"],
    "gateway": ["tests/unit/gateway/gateway_test"],
}
SWAPS = [
    (" < ", " <= "),
    (" <= ", " < "),
    (" > ", " >= "),
    (" >= ", " > "),
    (" == ", " != "),
    (" != ", " == "),
    (" && ", " || "),
    (" || ", " && "),
    (" + 1", ""),
    (" - 1", ""),
    (" += ", " -= "),
    ("(!", "("),
    ("return true;", "return false;"),
    ("return false;", "return true;"),
    (" ? 1 : 0", " ? 0 : 1"),
]
# One statement on one line that is no declaration, return or assertion.
STATEMENT = re.compile(
    r"^\s+(?:\+\+|--)?(?!return\b|case\b|using\b|else\b|CW_|static_assert|break|continue)[a-z_][\w.\[\]]*"
    r"(?:->[\w.\[\]]+)*(?:\(.*\)(?:\.\w+\(.*\))*| [-+|&]?= .*|\+\+|--)?;$"
)
NO_CODE = re.compile(r"^\s*(//|#|template|static_assert|CW_D?ASSERT|inline constexpr|constexpr)")


@dataclass(frozen=True)
class Mutant:
    path: str
    line: int  # from 1
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before.strip()}  ->  {self.after.strip() or '(removed)'}"


def mutants_of(path: str) -> list[Mutant]:
    found = []
    for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
        code = line.split("//")[0].rstrip()
        if NO_CODE.match(line) or not code.strip():
            continue
        for old, new in SWAPS:
            for place in re.finditer(re.escape(old), code):
                if code[: place.start()].count('"') % 2 == 0 and not (
                    old in (" + 1", " - 1") and code[place.end() : place.end() + 1].isalnum()
                ):
                    found.append(Mutant(path, number, line, code[: place.start()] + new + code[place.end() :]))
        if STATEMENT.match(code) and code.count("(") == code.count(")"):
            found.append(Mutant(path, number, line, ""))
    return found


def copy_tree() -> Path:
    """The sources as they are here; what did not change keeps its time, so that nothing is compiled twice."""
    source = WORK / "source"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    for name in names:
        here, there = ROOT / name, source / name
        if not there.exists() or there.read_bytes() != here.read_bytes():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(here, there)
            os.utime(there)
    return source


def build(targets: list[str]) -> bool:
    return (
        subprocess.run(
            ["ninja", "-C", str(WORK / "build"), "--quiet", *targets], stdout=subprocess.DEVNULL, check=False
        ).returncode
        == 0
    )


def passes(tests: list[str], seconds: float) -> bool:
    for test in tests:
        try:
            command = [str(WORK / "build" / test), "--gtest_brief=1", "--gtest_fail_fast"]
            run = subprocess.run(
                command, cwd=WORK / "build", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        if run.returncode != 0:
            return False
    return True


def try_mutant(mutant: Mutant, source: Path, tests: list[str], seconds: float) -> str:
    path = source / mutant.path
    whole = path.read_text(encoding="utf-8")
    lines = whole.split("\n")
    lines[mutant.line - 1] = mutant.after
    path.write_text("\n".join(lines), encoding="utf-8")
    try:
        if not build(tests):
            return "not compiled"
        return "survived" if passes(tests, seconds) else "killed"
    finally:
        path.write_text(whole, encoding="utf-8")


def tests_of(path: str, named: list[str] | None) -> list[str]:
    folder = next((folder for folder in TESTS if path.startswith(folder + "/")), None)
    if named or folder:
        return named or TESTS[str(folder)]
    sys.exit(f"{path}: no tests are known for it; name them with --tests")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--lines", default="1-1000000")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--tests", nargs="+")
    options = parser.parse_args()
    first, last = (int(number) for number in options.lines.split("-"))
    files = [Path(name).resolve().relative_to(ROOT).as_posix() for name in options.files]
    mutants = [mutant for path in files for mutant in mutants_of(path) if first <= mutant.line <= last]
    if options.list:
        print("\n".join(str(mutant) for mutant in mutants))
        return 0
    source = copy_tree()
    if not (WORK / "build/build.ninja").exists():
        command = [
            "meson",
            "setup",
            str(WORK / "build"),
            str(source),
            "-Dbuildtype=plain",
            "-Doptimization=0",
            "-Ddpdk=disabled",
            "-Dwerror=false",
            "-Db_ndebug=false",
        ]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env={"CXX": "ccache g++", **os.environ})
    counts = {"killed": 0, "survived": 0, "not compiled": 0}
    usual: dict[str, float] = {}
    for number, mutant in enumerate(mutants, 1):
        tests = tests_of(mutant.path, options.tests)
        if mutant.path not in usual:
            if not build(tests):
                sys.exit("the tree does not compile as it is")
            start = time.monotonic()
            if not passes(tests, 600):
                sys.exit("the tests do not pass as they are")
            usual[mutant.path] = time.monotonic() - start
        outcome = try_mutant(mutant, source, tests, 10 * usual[mutant.path] + 5)
        counts[outcome] += 1
        print(f"{number} of {len(mutants)}: {outcome}", file=sys.stderr, flush=True)
        if outcome == "survived":
            print(mutant, flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
