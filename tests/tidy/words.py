#!/usr/bin/env python3
"""Finds words that the field says otherwise: words.py [--staged | FILE...]

words.tsv has a row per word: a pattern, where it counts, and what to write instead. "text" is prose: comments and string literals of
code, everything in Markdown, manual pages and configuration; "anywhere" is names in code as well. Sentences of RFCs are quoted as they
are, so the column `requirement` of the tables in tests/requirements/ is left out.

With --staged: the lines that the next commit adds; the way to keep a word from coming back. Without: whole files, by default all that
git knows, with a count per word. Exit status 1 when there is one.
"""
import csv
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Iterator, NamedTuple

from spec_coverage import COLUMNS

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).resolve().with_name("words.tsv")
COMMENT_SIGNS = {".cc": "//", ".h": "//", ".js": "//", ".py": "#", ".sh": "#", "": "#", ".build": "#"}
PROSE = {".md", ".toml", ".txt", ".yaml", ".yml", ".html"} | {f".{section}" for section in range(1, 9)}
LEFT_OUT = ("tests/golden/", "tests/fuzz/corpus/", "tests/tidy/words.", "LICENSE")
REQUIREMENTS = re.compile(r"tests/requirements/rfc\d+\.tsv")
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|\'(?:[^\'\\]|\\.)*\'')


class Word(NamedTuple):
    pattern: re.Pattern[str]
    in_names: bool
    better: str


class Line(NamedTuple):
    name: str
    number: int
    text: str


def words() -> list[Word]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if rows[0] != ["pattern", "where", "better"] or any(len(row) != 3 or row[1] not in ("text", "anywhere") for row in rows[1:]):
        sys.exit(f"{TABLE.name}: the columns are pattern, where (text or anywhere), better")
    return [
        Word(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), where == "anywhere", better) for pattern, where, better in rows[1:]
    ]


def prose_of(line: Line) -> str:
    """The part of a line that is for people. A docstring's lines are taken whole: they have no sign of their own."""
    if REQUIREMENTS.fullmatch(line.name):
        return " ".join(field for column, field in zip(COLUMNS, line.text.split("\t")) if column != "requirement")
    suffix = Path(line.name).suffix
    sign = COMMENT_SIGNS.get(suffix)
    if suffix in PROSE or sign is None:
        return line.text
    literals = LITERAL.findall(line.text)
    code = LITERAL.sub(lambda found: " " * len(found[0]), line.text)
    comment = line.text[code.index(sign) :] if sign in code else ""
    plain = line.text if suffix == ".py" and re.match(r"\s*(\"\"\")?[A-Z][a-z]* [a-z]+ [a-z]", line.text) else ""
    # "frame.bytes" in a format string is a name, too; a word of prose has no dot before it.
    return re.sub(r"(?<=\w)[.:>]+\w+", " ", " ".join([comment, plain, *literals]))


def findings(lines: Iterator[Line], table: list[Word]) -> Iterator[tuple[Line, str, Word]]:
    for line in lines:
        if line.name.startswith(LEFT_OUT):
            continue
        prose = prose_of(line)
        for word in table:
            if found := word.pattern.search(line.text if word.in_names else prose):
                yield line, found[0], word


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True)
    return done.stdout.decode("utf-8", errors="replace")


def staged() -> Iterator[Line]:
    name, number = "", 0
    for text in git("diff", "--cached", "--unified=0", "--no-color", "--no-ext-diff", "--diff-filter=ACMR").splitlines():
        if text.startswith("+++ "):
            name = text[6:]
        elif hunk := re.match(r"@@ -\S+ \+(\d+)", text):
            number = int(hunk[1])
        elif text.startswith("+"):
            yield Line(name, number, text[1:])
            number += 1


def whole(names: list[str]) -> Iterator[Line]:
    for name in names:
        try:
            texts = (ROOT / name).read_text(encoding="utf-8").splitlines()
        except (UnicodeDecodeError, OSError):
            continue
        yield from (Line(name, number, text) for number, text in enumerate(texts, 1))


def main() -> int:
    arguments = sys.argv[1:]
    if arguments == ["--staged"]:
        lines = staged()
    else:
        lines = whole([Path(name).resolve().relative_to(ROOT).as_posix() for name in arguments] or git("ls-files").splitlines())
    counts: Counter[str] = Counter()
    for line, found, word in findings(lines, words()):
        print(f"{line.name}:{line.number}: '{found}': write {word.better}")
        counts[word.better] += 1
    print("".join(f"{count:6}  {better}\n" for better, count in counts.most_common()), end="")
    return 1 if counts else 0


sys.exit(main())
