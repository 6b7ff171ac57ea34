#!/usr/bin/env python3
"""Checks tests/requirements/hostile.md against the tests: hostile.py ROOT

Every shape of the lists below has a row, every row has a test, every test that is named exists and asserts something, and the first test of
a row is named after it (or after the row whose test it shares: "(test of ID)" in the shape).
"""
import re
import sys
from pathlib import Path

from test_cases import cases_of

# How many shapes each list has.
LISTS = {"F": 13, "C": 6, "I": 12, "R": 14, "B": 7, "P": 7}
ORIGINS = """
CVE-2026-46043 CVE-2026-98365 RXE-1114c87 CVE-2026-93107 CVE-2026-45910 CVE-2024-40992 CVE-2023-53539 CVE-2024-38544
CVE-2022-49929 CVE-2021-47076 CVE-2024-42285 CVE-2025-38211 CVE-2021-47378 CVE-2026-89531 CVE-2026-93224
CVE-2026-31538 CVE-2026-31539 CVE-2025-39943 CVE-2025-39942 CVE-2025-39933 CVE-2026-74394 CVE-2026-97413
CVE-2026-64269 CVE-2026-72129 CVE-2023-25775 CVE-2022-49356 CVE-2024-53151 CVE-2025-68811 CVE-2025-71068
CVE-2026-89526 CVE-2026-89527 CVE-2026-89528 CVE-2026-89529 CVE-2026-89530 CVE-2026-89532 CVE-2026-93228
CVE-2026-89533 CVE-2025-40129 CVE-2026-72466 CVE-2026-72473 CVE-2021-46828
""".split()

ROW = re.compile(r"^\| ([A-Z][A-Za-z0-9-]*) \| (.+?) \| (.*?) *\|$")
SHARED = re.compile(r"\(test of ([A-Z][A-Za-z0-9-]*)\)")


def tests_of(root: Path) -> dict[str, bool]:
    """Each that runs, and whether it asserts anything."""
    sources = sorted((root / "tests").rglob("*_test.cc"))
    return {case.name: case.asserts for source in sources for case in cases_of(source, root) if not case.disabled}


def is_named_after(test: str, row: str) -> bool:
    """F1 is the beginning of F1_RuntsOf..., not of F10_Rnr...; CVE-2026-1 that of CVE_2026_1_..."""
    name = test.split(".")[-1]
    start = row.replace("-", "_")
    return name.startswith(start) and not name[len(start) : len(start) + 1].isdigit()


def wanted() -> list[str]:
    return [*ORIGINS, *(f"{letter}{number}" for letter, count in LISTS.items() for number in range(1, count + 1))]


def check(table: str, tests: dict[str, bool]) -> tuple[set[str], list[str]]:
    problems: list[str] = []
    rows: set[str] = set()
    for number, line in enumerate(table.splitlines(), 1):
        found = ROW.match(line)
        if found is None or found.group(1) == "id":
            continue
        row, shape, named = found.group(1), found.group(2), found.group(3).split()
        if row in rows:
            problems.append(f"{number}: {row} has two rows")
        rows.add(row)
        problems += [f"{number}: {row}: there is no test {test}" for test in named if test not in tests]
        problems += [f"{number}: {row}: {test} asserts nothing" for test in named if not tests.get(test, True)]
        shared = SHARED.search(shape)
        origin = shared.group(1) if shared else row
        if not named:
            problems.append(f"{number}: {row} has no test")
        elif not is_named_after(named[0], origin):
            problems.append(f"{number}: {row}: {named[0]} should be named after {origin}")
    ids = wanted()
    problems += [f"1: {row} has no row" for row in ids if row not in rows]
    problems += [f"1: {row} is on no list" for row in sorted(rows - set(ids))]
    return rows, problems


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    table = Path("tests/requirements/hostile.md")
    rows, problems = check((root / table).read_text(encoding="utf-8"), tests_of(root))
    print("\n".join(f"{table}:{problem}" for problem in problems) if problems else f"{len(rows)} shapes have their tests")
    return 1 if problems else 0


sys.exit(main())
