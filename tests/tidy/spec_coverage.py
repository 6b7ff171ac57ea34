#!/usr/bin/env python3
"""Which statements of the RFCs are proved by which test.

    spec_coverage.py [ROOT]                 the table; fails on an unknown id and on an open MUST or MUST NOT of a closed RFC
    spec_coverage.py [ROOT] --open [WHAT]   open rows, all or those whose id begins with WHAT or whose level is WHAT
    spec_coverage.py [ROOT] --where ID...   the tests that prove these rows

    spec_coverage.py [ROOT] --ran OUTCOMES  the table; fails besides on a test that proves rows and did not pass in that run (outcomes.py)

A test names the rows it proves in a comment above or inside it: "// Proves RPCRDMA-4.5-2, CMPD-4-6" ("#" in Python); the list may go
on in the comment's next lines, and what follows it is free text. Only tests that run and assert something count: a source file has to be in
its folder's meson.build; a test without an assertion (EXPECT_, ASSERT_, a helper expect_... with one in it; in Python `raise` or
expect), a disabled one and a header prove nothing. Tables, exceptions and the list of closed RFCs are in tests/requirements/.
"""
import csv
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from outcomes import Outcome, read
from test_cases import Case, case_at, cases_of

RFCS = ["rfc8166", "rfc8797", "rfc8167", "rfc5040"]
LEVELS = ["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "FACT"]
BINDING = ("MUST", "MUST NOT")
COLUMNS = ["id", "section", "level", "role", "requirement", "how_to_test"]
# Folders of tests/, and the suites of a run whose outcomes their tests are found in.
SUITES = {"unit": ("unit", "sim"), "golden": ("golden",), "sim": ("sim",), "interop": ("interop",), "ops": ("ops",)}
FOLDERS = list(SUITES)
COMMENTS = {".cc": "//", ".py": "#"}
ID = r"(?:RPCRDMA|CMPD|BIDI|RDMAP)-[0-9A-Z.]+-[0-9]+"
ID_LIST = re.compile(rf"Proves\s+({ID}(?:,\s*{ID})*)")
ANY_ID = re.compile(ID)


def read_tsv(path: Path, columns: list[str]) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or rows[0] != columns:
        sys.exit(f"{path}: the first line has to be {columns}")
    for number, row in enumerate(rows, 1):
        if len(row) != len(columns) or not all(field.strip() for field in row):
            sys.exit(f"{path}:{number}: {len(columns)} fields expected, none of them empty")
    return [dict(zip(columns, row)) for row in rows[1:]]


def is_comment(line: str, sign: str) -> bool:
    return line.lstrip().startswith(sign)


@dataclass(frozen=True)
class Proof:
    where: str  # file:line
    case: str
    folder: str  # of tests/
    reported: tuple[re.Pattern[str], ...]  # how a run names the case; none for what the compiler checks

    def __str__(self) -> str:
        return f"{self.where} {self.case}"


def case_of(lines: list[str], cases: list[Case], after: int) -> Case | None:
    """The test that the comment ending before line `after` stands above, or else inside."""
    following = next((number for number in range(after, len(lines)) if lines[number].strip()), after)
    if following < len(lines) and lines[following].strip().startswith("static_assert"):
        return Case("static_assert", following, following + 1, asserts=True)
    above = next((case for case in cases if case.first == following), None)
    return above or case_at(cases, after - 1)


def proofs_in(root: Path, path: Path, problems: list[str]) -> list[tuple[str, Proof]]:
    sign = COMMENTS[path.suffix]
    name = path.relative_to(root).as_posix()
    lines = path.read_text(encoding="utf-8").splitlines()
    cases = cases_of(path, root)
    proofs = []
    for start, line in enumerate(lines):
        if not is_comment(line, sign) or not line.lstrip()[len(sign) :].strip().startswith("Proves "):
            continue
        end = start
        while end < len(lines) and is_comment(lines[end], sign):
            end += 1
        text = " ".join(part.lstrip()[len(sign) :].strip() for part in lines[start:end])
        found = ID_LIST.match(text)
        where = f"{name}:{start + 1}"
        if not found:
            problems.append(f"{where}: 'Proves' needs a list of ids, as RPCRDMA-4.5-2, CMPD-4-6")
            continue
        case = case_of(lines, cases, end)
        if case is None or case.disabled:
            problems.append(f"{where}: stands at no test that runs")
        elif not case.asserts:
            problems.append(f"{where}: {case.name} asserts nothing, so it proves nothing")
        elif path.suffix == ".py" and not case.reported:
            problems.append(f"{where}: {case.name} is the function of no case")
        else:
            proof = Proof(where, case.name, path.relative_to(root / "tests").parts[0], tuple(case.reported))
            proofs += [(row, proof) for row in ANY_ID.findall(found.group(1))]
    if path.suffix == ".cc" and proofs:
        build = path.parent / "meson.build"
        if not build.exists() or path.name not in build.read_text(encoding="utf-8"):
            problems.append(f"{name}: proves rows but is not built")
    return proofs


def collect(root: Path, problems: list[str]) -> dict[str, list[Proof]]:
    proofs = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((root / "tests" / folder).rglob("*")):
            if path.suffix in COMMENTS and path.is_file():
                for row, proof in proofs_in(root, path, problems):
                    proofs[row].append(proof)
    return proofs


def check_ran(proofs: dict[str, list[Proof]], outcomes: list[Outcome], problems: list[str]) -> None:
    """Every test that proves something ran and passed, in the first build, as far as its suite could run here at all."""
    for folder, suites in SUITES.items():
        ran = [one for one in outcomes if one.suite in suites and one.outcome != "again"]
        if not any(one.outcome != "skipped" for one in ran):
            continue
        passed = {one.test for one in ran if one.outcome == "passed"} - {one.test for one in ran if one.outcome != "passed"}
        here = {proof for found in proofs.values() for proof in found if proof.folder == folder and proof.reported}
        for proof in sorted(here, key=lambda one: one.where):
            if not any(pattern.fullmatch(test) for pattern in proof.reported for test in passed):
                problems.append(f"{proof.where}: {proof.case} did not pass in this run, so it proves nothing")


def state_of(row: dict[str, str], proofs: dict[str, list[str]], exceptions: dict[str, str]) -> str:
    if row["id"] in proofs:
        return "proven"
    return "excepted" if row["id"] in exceptions else "open"


def check(tables, proofs, exceptions, closed, problems) -> None:
    known = {row["id"] for rows in tables.values() for row in rows}
    problems += [f"{proofs[row][0]}: no such row: {row}" for row in sorted(set(proofs) - known)]
    problems += [f"exceptions.tsv: no such row: {row}" for row in sorted(set(exceptions) - known)]
    problems += [f"exceptions.tsv: {row} is proven by {proofs[row][0]}" for row in sorted(set(exceptions) & set(proofs))]
    problems += [f"closed: no such table: {name}" for name in closed if name not in tables]
    for name in closed:
        for row in tables.get(name, []):
            if row["level"] in BINDING and state_of(row, proofs, exceptions) == "open":
                problems.append(f"{name}: {row['level']} {row['id']} is open: {row['requirement']}")


def print_table(tables, proofs, exceptions) -> None:
    print(f"{'':8} {'level':10} {'rows':>5} {'proven':>7} {'excepted':>9} {'open':>5}")
    for name, rows in tables.items():
        for level in [*LEVELS, "all"]:
            states = [state_of(row, proofs, exceptions) for row in rows if level in (row["level"], "all")]
            if states:
                print(
                    f"{name:8} {level:10} {len(states):5} {states.count('proven'):7} {states.count('excepted'):9} "
                    f"{states.count('open'):5}"
                    + (f" {100 * states.count('proven') / len(states):6.1f} %" if level == "all" else "")
                )


def read_exceptions(path: Path, problems: list[str]) -> dict[str, str]:
    rows = read_tsv(path, ["id", "reason"])
    problems += [f"exceptions.tsv: {row['id']}: say why" for row in rows if len(row["reason"]) < 20]
    return {row["id"]: row["reason"] for row in rows}


def main() -> int:
    arguments = sys.argv[1:]
    root = Path(arguments.pop(0)) if arguments and not arguments[0].startswith("-") else Path(__file__).resolve().parents[2]
    folder = root / "tests" / "requirements"
    tables = {name: read_tsv(folder / f"{name}.tsv", COLUMNS) for name in RFCS}
    ids = [row["id"] for rows in tables.values() for row in rows]
    problems = [f"{row} stands twice" for row in sorted({row for row in ids if ids.count(row) > 1})]
    problems += [
        f"{row['id']}: unknown level {row['level']}" for rows in tables.values() for row in rows if row["level"] not in LEVELS
    ]
    exceptions = read_exceptions(folder / "exceptions.tsv", problems)
    closed = [line for line in (folder / "closed").read_text(encoding="utf-8").split("\n") if line and not line.startswith("#")]
    proofs = collect(root, problems)
    if arguments[:1] == ["--where"]:
        for row in arguments[1:]:
            print("\n".join([row, *(f"  {proof}" for proof in proofs.get(row, [exceptions.get(row, "open")]))]))
        return 0
    if arguments[:1] == ["--open"]:
        for row in (row for rows in tables.values() for row in rows):
            wanted = len(arguments) == 1 or any(row["level"] == what or row["id"].startswith(what) for what in arguments[1:])
            if wanted and state_of(row, proofs, exceptions) == "open":
                print(f"{row['id']}\t{row['level']}\t{row['requirement']}")
        return 0
    check(tables, proofs, exceptions, closed, problems)
    if arguments[:1] == ["--ran"]:
        check_ran(proofs, read(Path(arguments[1])), problems)
    print_table(tables, proofs, exceptions)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
