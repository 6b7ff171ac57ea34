#!/usr/bin/env python3
"""STALLS.md and the table in deploy/GUIDE.md: how long a writing Linux client stands still when its gateway is upgraded, restarted or
killed. Made of stalls.json, the last results of the `stall` cases.

    ./run.py -k stall                                    # measures, and writes stalls.json beside its logs
    ./stalls.py --take ../../build/interop-logs/stalls.json  # puts it in the place of the older figures, and makes the tables
    ./stalls.py                                          # makes the tables anew
    ./stalls.py --check                                  # whether they are what stalls.json says
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "stalls.json"
PAGE = HERE / "STALLS.md"
GUIDE = HERE.parents[1] / "deploy/GUIDE.md"
BEGIN, END = "<!-- stalls.py: begin -->\n", "<!-- stalls.py: end -->\n"
ORDER = ("upgrade", "restart", "kill")
WORDS = {"upgrade": "drained, ended, next one started", "restart": "ended by SIGTERM, next one started", "kill": "killed, next one started"}
Figures = list[dict[str, Any]]


def sorted_figures(figures: Figures) -> Figures:
    return sorted(figures, key=lambda each: (ORDER.index(each["what"]), each["options"], each["nfs"], each["wire"]))


def page(figures: Figures) -> str:
    lines = ["# How long a writer stands still", "",
             "Made by `stalls.py` from `stalls.json`: do not edit. Seconds. The writer makes 64 KiB durable again and again; the pause is the longest",
             "time between two writes, \"usual\" the median. What it is made of: the drain, the gateway's absence until the next one is ready, the",
             "time from then until the client has connected, and from then until a WRITE of its has arrived. The client is an emulated guest.", "",
             "| the gateway is | NFS | mount options | pause | usual | drain | away | until connected | until a WRITE | wire |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for each in sorted_figures(figures):
        parts = [f"{each[name]:.1f}" for name in ("drain", "away", "connect", "resume")]
        lines.append(f"| {WORDS[each['what']]} | {each['nfs']} | {each['options'] or '-'} | **{each['pause']:.1f}** | {each['usual']:.2f} |"
                     f" {' | '.join(parts)} | {each['wire']} |")
    dates = sorted(each["date"] for each in figures)
    if dates:
        lines += ["", f"{dates[0]} to {dates[-1]}; Linux {', '.join(sorted({each['linux'] for each in figures}))}."]
    return "\n".join(lines) + "\n"


def short_table(figures: Figures) -> str:
    rows: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for each in sorted_figures(figures):
        row = rows[each["what"], each["options"]]
        row[each["nfs"]] = max(each["pause"], row.get(each["nfs"], 0.0))
    lines = ["| the gateway is | mount options | NFSv3 | NFSv4.1 |", "|---|---|---|---|"]
    for (what, options), row in rows.items():
        cells = [f"{row[version]:.1f} s" if version in row else "" for version in ("3", "4.1")]
        lines.append(f"| {WORDS[what]} | {options or '-'} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def with_short_table(guide: str, figures: Figures) -> str:
    before, rest = guide.split(BEGIN)
    return before + BEGIN + short_table(figures) + END + rest.split(END)[1]


def load(path: Path) -> Figures:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def key(each: dict[str, Any]) -> tuple[str, ...]:
    return tuple(each[name] for name in ("what", "nfs", "options", "wire"))


def main() -> int:
    parser = argparse.ArgumentParser(description="The tables of stalls.")
    parser.add_argument("--take", metavar="FILE", type=Path, action="append", default=[], help="results of a run; several times")
    parser.add_argument("--check", action="store_true", help="change nothing: are the tables up to date?")
    options = parser.parse_args()
    known = {key(each): each for each in load(FIGURES)}
    guide = GUIDE.read_text(encoding="utf-8")
    if options.check:
        figures = list(known.values())
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page(figures) and guide == with_short_table(guide, figures)
        print(f"STALLS.md and GUIDE.md {'are what stalls.json says' if same else 'were not made from stalls.json: run stalls.py'}")
        return 0 if same else 1
    for path in options.take:
        if not path.exists():
            print(f"stalls.py: no {path}", file=sys.stderr)
            return 2
        known.update({key(each): each for each in load(path)})
    figures = sorted_figures(list(known.values()))
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(figures), encoding="utf-8")
    GUIDE.write_text(with_short_table(guide, figures), encoding="utf-8")
    print(f"{len(figures)} figures in {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
