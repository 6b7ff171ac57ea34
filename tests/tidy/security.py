#!/usr/bin/env python3
"""Checks deploy/SECURITY.md against the tests: security.py ROOT

Every row of a table that has a column "tests" names at least one there, and each that is named exists: `Suite.Name` among the unit tests,
"words" among the ops cases, `fuzz/NAME` among the fuzz targets. Tables without that column are a mistake: a claim has a test.
"""
import re
import sys
from pathlib import Path

PAGE = Path("deploy/SECURITY.md")
COLUMN = "tests"
UNIT = re.compile(r"^\s*TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
OPS_CASE = re.compile(r'^    \(\s*"((?:[^"\\]|\\.)+)",', re.MULTILINE)
FUZZ_TARGET = re.compile(r"^  '(\w+)': \[", re.MULTILINE)
NAMED = re.compile(r'`([^`]+)`|"([^"]+)"')


def tests_of(root: Path) -> set[str]:
    found = {f"fuzz/{name}" for name in FUZZ_TARGET.findall((root / "tests/fuzz/meson.build").read_text(encoding="utf-8"))}
    for source in sorted((root / "tests").rglob("*_test.cc")):
        found |= {f"{suite}.{name}" for suite, name in UNIT.findall(source.read_text(encoding="utf-8"))}
    for source in sorted((root / "tests/ops").glob("*_cases.py")):
        found |= set(OPS_CASE.findall(source.read_text(encoding="utf-8")))
    return found


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def check(page: str, tests: set[str]) -> tuple[int, list[str]]:
    """How many rows have their tests, and what is wrong with the others."""
    problems: list[str] = []
    rows, columns = 0, None
    lines = page.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith("|"):
            columns = None
        elif columns is None:
            columns = len(cells(line))
            if cells(line)[-1] != COLUMN:
                problems.append(f"{number}: the last column of a table is '{COLUMN}'")
        elif not line.startswith("|---"):
            row = cells(line)
            named = [unit or case for unit, case in NAMED.findall(row[-1])] if len(row) == columns else []
            if not named:
                problems.append(f"{number}: {row[0]}: no test, or another number of columns than the table's head")
            problems += [f"{number}: {row[0]}: there is no test {name}" for name in named if name not in tests]
            rows += 1
    if rows == 0:
        problems.append("1: no table has been found")
    return rows, problems


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    rows, problems = check((root / PAGE).read_text(encoding="utf-8"), tests_of(root))
    print("\n".join(f"{PAGE}:{problem}" for problem in problems) if problems else f"{rows} rows of {PAGE} have their tests")
    return 1 if problems else 0


sys.exit(main())
