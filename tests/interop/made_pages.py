"""Pages made of results that are kept in the tree: taken from runs, newer ones in the place of older ones, and checked by the tidy suite.
matrix.py and stalls.py say what is kept and what is made of it."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

Row = dict[str, Any]


def between_marks(text: str, program: str, middle: str) -> str:
    """`text` with `middle` in the place of what is between the two marks of the program."""
    begin, end = (f"<!-- {program}: {which} -->\n" for which in ("begin", "end"))
    before, rest = text.split(begin)
    return before + begin + middle + end + rest.split(end)[1]


@dataclass
class Kept:
    program: str  # its own name, for what it says
    results: Path
    under: Optional[str]  # the member of the JSON document that holds the rows; None: it is the list itself
    key: Callable[[Row], tuple[Any, ...]]  # of two rows with the same the newer one is kept, and they are sorted by it
    name: Callable[[Row], str]  # what --drop looks at
    pages: dict[Path, Callable[[str, list[Row]], str]]  # from its text so far and the rows: its text

    def load(self, path: Path) -> list[Row]:
        if not path.exists():
            return []
        document = json.loads(path.read_text(encoding="utf-8"))
        return document if self.under is None else document[self.under]

    def write(self, rows: list[Row]) -> None:
        document = rows if self.under is None else {self.under: rows}
        self.results.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def run(kept: Kept, description: str) -> int:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", metavar="FILE", type=Path, action="append", default=[], help="results of a run; several times")
    parser.add_argument("--drop", metavar="NAME", action="append", default=[], help="forget what has this in its name")
    parser.add_argument("--check", action="store_true", help="change nothing: are the pages up to date?")
    options = parser.parse_args()
    known = {kept.key(row): row for row in kept.load(kept.results)}
    for path in options.take:
        if not path.exists():
            print(f"{kept.program}: no {path}", file=sys.stderr)
            return 2
        known.update({kept.key(row): row for row in kept.load(path)})
    rows = [known[key] for key in sorted(known) if not any(part in kept.name(known[key]) for part in options.drop)]
    pages = {path: make(_text(path), rows) for path, make in kept.pages.items()}
    names = " and ".join(path.name for path in pages)
    if options.check:
        same = all(_text(path) == text for path, text in pages.items())
        print(
            f"{names} are what {kept.results.name} says"
            if same
            else f"{names} were not made from {kept.results.name}: run {kept.program}"
        )
        return 0 if same else 1
    kept.write(rows)
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    print(f"{len(rows)} results in {names}")
    return 0
