#!/usr/bin/env python3
"""The table of targets in README.md, made of published.json: for each target, and each distance of the CPUs where that matters, the last
figure that was published, with its spread, the commit that it was measured of, the build and the machine.

    run.sh BUILD_DIR --full                              # measures; publish what a quiet machine says
    published.py --take BUILD_DIR/bench/summary.json     # puts it in the place of the older figures, and makes the table
    published.py                                         # makes the table anew
    published.py --check                                 # whether it is what published.json says
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interop"))

from made_pages import Kept, between_marks, run  # noqa: E402
from targets import TARGETS, Row, text  # noqa: E402

PROGRAM = "published.py"
ORDER = {target.what: place for place, target in enumerate(TARGETS)}
HEAD = ["target", "have", "spread", "floor", "target", "moonshot", "verdict", "run"]


def spread_of(row: Row) -> str:
    """Of the figure; a ratio has none of its own."""
    return f"{text(row['spread'][0])} {text(row['spread'][1])}" if row["field"] == "value" and "spread" in row else ""


def table(rows: list[Row]) -> str:
    runs = sorted({tuple(row["run"]) for row in rows})
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for row in rows:
        cells = [row["what"], text(row["have"]), spread_of(row), *(text(row[bound]) for bound in ("floor", "target", "moonshot"))]
        state = f" ({row['state']})" if "state" in row else ""
        cells += [row["verdict"] + state, f"{runs.index(tuple(row['run'])) + 1}"]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for number, (date, commit, build, cpus) in enumerate(runs, 1):
        lines.append(f"Run {number}: {date}, commit {commit}, {build}, {cpus}.")
    return "\n".join(lines) + "\n"


KEPT = Kept(
    program=PROGRAM,
    results=HERE / "published.json",
    under="published",
    # What is no target any more comes last, to be dropped. What two CPUs do together goes with their distance: a figure of near ones
    # takes nobody's place but another's of near ones.
    key=lambda row: (ORDER.get(row["what"], len(ORDER)), row["what"], row.get("state", "")),
    name=lambda row: row["what"],
    pages={HERE / "README.md": lambda page, rows: between_marks(page, PROGRAM, table(rows))},
)

if __name__ == "__main__":
    sys.exit(run(KEPT, __doc__ or ""))
