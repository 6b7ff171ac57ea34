#!/usr/bin/env python3
"""STALLS.md and the table in deploy/GUIDE.md: how long a writing Linux client stands still when its gateway is upgraded, restarted or
killed. Made of stalls.json, the last results of the `stall` cases.

    ./run.py -k stall                                    # measures, and writes stalls.json beside its logs
    ./stalls.py --take ../../build/interop-logs/stalls.json  # puts it in the place of the older figures, and makes the tables
    ./stalls.py                                          # makes the tables anew
    ./stalls.py --check                                  # whether they are what stalls.json says
"""

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from made_pages import Kept, between_marks, run

HERE = Path(__file__).resolve().parent
PROGRAM = "stalls.py"
ORDER = ("hand-over", "hand-over-4k", "upgrade", "restart", "kill")
WORDS = {
    "hand-over": "followed by the next one (`causewayctl restart`), with hugepages",
    "hand-over-4k": "followed by the next one, without hugepages",
    "upgrade": "drained, ended, next one started",
    "restart": "ended by SIGTERM, next one started",
    "kill": "killed, next one started",
}
Figures = list[dict[str, Any]]


def page(figures: Figures) -> str:
    lines = [
        "# How long a writer stands still",
        "",
        "Made by `stalls.py` from `stalls.json`: do not edit. Seconds. The writer makes 64 KiB durable again and again; the pause is the longest",
        'time between two writes, "usual" the median. What it is made of: the drain, the gateway\'s absence until the next one is ready, the',
        "time from then until the client has connected, and from then until a WRITE of its has arrived. The client is an emulated guest.",
        "",
        "| the gateway is | NFS | mount options | pause | usual | drain | away | until connected | until a WRITE | wire |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in figures:
        parts = [f"{each[name]:.1f}" for name in ("drain", "away", "connect", "resume")]
        lines.append(
            f"| {WORDS[each['what']]} | {each['nfs']} | {each['options'] or '-'} | **{each['pause']:.1f}** | {each['usual']:.2f} |"
            f" {' | '.join(parts)} | {each['wire']} |"
        )
    dates = sorted(each["date"] for each in figures)
    if dates:
        lines += ["", f"{dates[0]} to {dates[-1]}; Linux {', '.join(sorted({each['linux'] for each in figures}))}."]
    return "\n".join(lines) + "\n"


def short_table(figures: Figures) -> str:
    rows: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for each in figures:
        row = rows[each["what"], each["options"]]
        row[each["nfs"]] = max(each["pause"], row.get(each["nfs"], 0.0))
    lines = ["| the gateway is | mount options | NFSv3 | NFSv4.1 |", "|---|---|---|---|"]
    for (what, options), row in rows.items():
        cells = [f"{row[version]:.1f} s" if version in row else "" for version in ("3", "4.1")]
        lines.append(f"| {WORDS[what]} | {options or '-'} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


KEPT = Kept(
    program=PROGRAM,
    results=HERE / "stalls.json",
    under=None,
    key=lambda each: (ORDER.index(each["what"]), each["options"], each["nfs"], each["wire"]),
    name=lambda each: "-".join(each[part] for part in ("what", "options", "nfs", "wire")),
    pages={
        HERE / "STALLS.md": lambda _, figures: page(figures),
        HERE.parents[1] / "deploy/GUIDE.md": lambda guide, figures: between_marks(guide, PROGRAM, short_table(figures)),
    },
)

if __name__ == "__main__":
    sys.exit(run(KEPT, __doc__))
