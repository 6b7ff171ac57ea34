#!/usr/bin/env python3
"""What became of each test of a run of tests/run.sh: a file with a line per test (suite, test, outcome, reason), and what it adds up to.

    outcomes.py FILE add SUITE --junit testlog.junit.xml   the outcomes of a meson run: GoogleTest cases one by one, other programs as one each
    outcomes.py FILE add SUITE --log LOG                   those of a runner that prints "ok NAME", "FAIL NAME: reason", "skip NAME: reason" and,
                                                           as its last line, "N passed, N failed"; a runner that prints only this is counted.
                                                           "again NAME: reason": a test that has failed, and is tried once more
    outcomes.py FILE add SUITE --failed TEST REASON        one test
    outcomes.py FILE add SUITE --skipped TEST REASON       one test
    outcomes.py FILE add SUITE --program TEST --status N   one program, which passed with status 0
    outcomes.py FILE report                                the skipped and repeated tests with their reasons, and as the last line
                                                           "N passed, N failed"

A skipped test counts as failed unless tests/skips.tsv allows its reason on this machine. The exit status of `report` is 1 when something
failed or nothing passed. After `add`, --status N says how the runner exited: another status than 0 without a failed test is a failure, since a
program that died may have left no test behind that says so.
"""
import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

SKIPS = Path(__file__).resolve().parents[1] / "skips.tsv"
COLUMNS = ["reason", "where", "why"]
SANITIZED = ("asan", "tsan")
UNSHARE = ["unshare", "--mount", "--net", "--pid", "--fork", "true"]
HUGEPAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
# Where a reason is allowed, besides "always".
PLACES = {
    "not-root": lambda suite: os.geteuid() != 0,
    "one-cpu": lambda suite: len(os.sched_getaffinity(0)) == 1,
    "no-npm": lambda suite: shutil.which("npm") is None,
    "no-kubectl": lambda suite: shutil.which("kubectl") is None,
    "no-podman": lambda suite: shutil.which("podman") is None,
    "no-namespaces": lambda suite: subprocess.run(UNSHARE, capture_output=True, check=False).returncode != 0,
    "no-tun": lambda suite: not Path("/dev/net/tun").exists(),
    "no-hugepages": lambda suite: not HUGEPAGES.exists(),
    "sanitizers": lambda suite: suite in SANITIZED,
}
LINE = re.compile(r"^(ok|FAIL|skip|again) (.*)$")
SECONDS = re.compile(r" \([\d.]+(?: s)?\)$|: [\d,]+ executions.*$")
LAST_LINE = re.compile(r"^(\d+) passed, (\d+) failed")
OF_LINE = {"ok": "passed", "FAIL": "failed", "skip": "skipped", "again": "again"}


@dataclass
class Outcome:
    suite: str
    test: str
    outcome: str  # passed, failed, skipped; again: failed, and there is another outcome behind it
    reason: str = ""


def read(path: Path) -> list[Outcome]:
    if not path.exists():
        return []
    return [Outcome(*line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()]


def append(path: Path, outcomes: list[Outcome]) -> None:
    with path.open("a", encoding="utf-8") as file:
        for found in outcomes:
            fields = (found.suite, found.test, found.outcome, found.reason)
            file.write("\t".join(" ".join(field.split()) for field in fields) + "\n")


def name_of(case: ElementTree.Element) -> str:
    """Suite.Name of a GoogleTest case, without the instance and the parameter that it ran with."""
    suite, name = case.get("classname", ""), case.get("name", "")
    if "status" not in case.attrib:
        return name.split(" / ")[-1]  # a whole program
    return f"{suite.split('/')[-1] if not suite.split('/')[-1].isdigit() else suite.split('/')[-2]}.{name.split('/')[0]}"


def from_junit(suite: str, path: Path) -> list[Outcome]:
    if not path.exists():
        return []  # the suite has no tests in this build
    found = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            found.append(Outcome(suite, name_of(case), "failed"))
        elif case.get("status") == "notrun":
            found.append(Outcome(suite, name_of(case), "skipped", "the test is disabled"))
        elif skipped is not None:
            # The first line of GoogleTest's message is the place in the source.
            text = (skipped.text or "").strip().split("\n")
            reason = " ".join(text[1:] if re.search(r":\d+$", text[0]) else text).strip()
            found.append(Outcome(suite, name_of(case), "skipped", reason or "no reason given"))
        else:
            found.append(Outcome(suite, name_of(case), "passed"))
    return found


def split_reason(text: str) -> tuple[str, str]:
    """Name and reason of "NAME: reason". Names of some cases begin with their kind and a colon: "drill: links flap"."""
    found = re.match(r"((?:[a-z]+: (?=.*: ))?[^:]*)(?:: )?(.*)", text)
    return (found[1], found[2]) if found else (text, "")


def from_log(suite: str, path: Path) -> list[Outcome]:
    found, counts = [], None
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if case := LINE.match(line):
            name, reason = (SECONDS.sub("", case[2]), "") if case[1] == "ok" else split_reason(case[2])
            found.append(Outcome(suite, name, OF_LINE[case[1]], reason))
        counts = LAST_LINE.match(line) or counts
    if counts is None:
        return [*found, Outcome(suite, f"({suite})", "failed", "ended without its last line")]
    for outcome, count in (("passed", int(counts[1])), ("failed", int(counts[2]))):
        found += [Outcome(suite, f"({suite})", outcome)] * (count - sum(one.outcome == outcome for one in found))
    return found


def read_allowed(problems: list[str]) -> list[tuple[re.Pattern[str], str]]:
    with SKIPS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or rows[0] != COLUMNS:
        sys.exit(f"{SKIPS}: the first line has to be {COLUMNS}")
    allowed = []
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(COLUMNS) or row[1] not in ("always", *PLACES) or len(row[2]) < 20:
            problems.append(f"{SKIPS.name}:{number}: a pattern, one of always, {', '.join(PLACES)}, and why are expected")
            continue
        allowed.append((re.compile(row[0]), row[1]))
    return allowed


def is_allowed(skipped: Outcome, allowed: list[tuple[re.Pattern[str], str]]) -> bool:
    return any(
        pattern.fullmatch(skipped.reason) and (where == "always" or PLACES[where](skipped.suite)) for pattern, where in allowed
    )


def report(outcomes: list[Outcome]) -> int:
    problems: list[str] = []
    allowed = read_allowed(problems)
    passed = sum(one.outcome == "passed" for one in outcomes)
    failed = sum(one.outcome == "failed" for one in outcomes) + len(problems)
    skipped = [one for one in outcomes if one.outcome == "skipped"]
    refused = [one for one in skipped if not is_allowed(one, allowed)]
    for one in (one for one in outcomes if one.outcome == "failed"):
        print(f"failed: {one.suite} {one.test}" + (f": {one.reason}" if one.reason else ""))
    print("".join(f"{problem}\n" for problem in problems), end="")
    for one in (one for one in outcomes if one.outcome == "again"):
        print(f"failed at first, look into it: {one.suite} {one.test}: {one.reason}")
    for one in skipped:
        print(f"skipped{', which counts as failed' if one in refused else ''}: {one.suite} {one.test}: {one.reason}")
    print(f"{len(skipped)} skipped, {len(refused)} of them for a reason that tests/skips.tsv does not allow here")
    failed += len(refused)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("report")
    add = commands.add_parser("add")
    add.add_argument("suite")
    add.add_argument("--junit", type=Path)
    add.add_argument("--log", type=Path)
    add.add_argument("--failed", nargs=2, action="append", default=[])
    add.add_argument("--skipped", nargs=2, action="append", default=[])
    add.add_argument("--program")
    add.add_argument("--status", type=int, default=0)
    options = parser.parse_args()
    if options.command == "report":
        return report(read(options.file))
    found = from_junit(options.suite, options.junit) if options.junit else []
    found += from_log(options.suite, options.log) if options.log else []
    found += [Outcome(options.suite, test, "failed", reason) for test, reason in options.failed]
    found += [Outcome(options.suite, test, "skipped", reason) for test, reason in options.skipped]
    if options.program:
        found.append(Outcome(options.suite, options.program, "failed" if options.status else "passed"))
    if options.status != 0 and not any(one.outcome == "failed" for one in found):
        found.append(
            Outcome(options.suite, f"({options.suite})", "failed", f"exit status {options.status}, and no test says why")
        )
    append(options.file, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
