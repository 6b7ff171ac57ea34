#!/usr/bin/env python3
"""Checks what sources look like: format.py ROOT [FILE...]

Layout: clang-format 14 would change nothing. It also breaks string literals that are too long for a line, wherever the line ends, so
that nobody finds a message by a phrase of it. Hence the text of a message goes on in the next line behind a sentence, or a part of one
that ends in a semicolon; behind a comma, a colon or a bracket when no sentence ends on the line; and in the middle of a phrase only
when the line has none of these and is full. HTML is left alone, and so are unit tests, which repeat messages.
Exit status: 1 for findings, 77 when clang-format is not installed.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

from layers import COLUMNS, LAYERS

LITERAL = r'"((?:[^"\\]|\\.)*)"'
LITERAL_AT_END = re.compile(LITERAL + "$")
LITERAL_AT_START = re.compile(r"\s*" + LITERAL)
SENTENCE_END = re.compile(r"(?<!\.\.)[.;?!] |\\n")
PHRASE_END = re.compile(r"[,:)] |  $")  # two spaces: a column
TAG = re.compile(r"</?[a-z0-9]+[ >]")
REPEATS_MESSAGES = "tests/unit/"


def ends_of_sentences(text: str) -> list[int]:
    """Where sentences end, brackets left out: what stands in them is part of a phrase."""
    found = (match.end() for match in SENTENCE_END.finditer(text))
    return [end for end in found if text.count("(", 0, end) <= text.count(")", 0, end)]


def is_well_broken(text: str, goes_on: str, room: int) -> bool:
    """Whether the text of a message may go on in the next line behind this literal, which leaves `room` columns of its line."""
    if re.match(r" \S", goes_on) and re.search(r"[\w,]$", text):
        return False
    if not text.endswith(" ") or TAG.search(text):
        return True
    sentences = ends_of_sentences(text)
    if sentences:
        return sentences[-1] == len(text)
    phrases = [match.end() for match in PHRASE_END.finditer(text)]
    return phrases[-1] == len(text) if phrases else len(goes_on.split(" ")[0]) >= room


def broken_phrases(name: str, lines: list[str]) -> list[str]:
    problems = []
    for number, (line, following) in enumerate(zip(lines, lines[1:]), 1):
        literal, goes_on = LITERAL_AT_END.search(line), LITERAL_AT_START.match(following)
        if literal and goes_on and not is_well_broken(literal[1], goes_on[1], COLUMNS - len(line)):
            problems.append(f'{name}:{number}: break this text behind a sentence or a comma: "...{literal[1][-40:]}"')
    return problems


def main() -> int:
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        print("clang-format is not installed")
        return 77
    root = Path(sys.argv[1]).resolve()
    tree = (f for layer in LAYERS for f in sorted((root / layer).rglob("*")))
    files = [str(f) for f in ([Path(name).resolve() for name in sys.argv[2:]] or tree) if f.suffix in (".h", ".cc")]
    if not files:
        return 0
    problems = []
    for file in files:
        name = Path(file).relative_to(root).as_posix()
        if not name.startswith(REPEATS_MESSAGES):
            problems += broken_phrases(name, Path(file).read_text(encoding="utf-8").splitlines())
    print("".join(f"{problem}\n" for problem in problems), end="")
    result = subprocess.run([tool, "--dry-run", "--Werror", *files], cwd=root, check=False)
    failed = bool(problems or result.returncode)
    if not failed:
        print(f"{len(files)} files are formatted, and no message breaks in the middle of a phrase")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
