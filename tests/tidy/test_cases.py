"""Test cases in the sources: where they stand, whether they assert anything, and by which name a run reports them."""
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Iterator, Optional

CC_CASE = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)")
PY_CASE = re.compile(r"^def (\w+)\(")
CC_ASSERTION = re.compile(r"\b(?:(?:EXPECT|ASSERT)_[A-Z_0-9]+|ADD_FAILURE|FAIL|static_assert)\s*\(")
CC_HELPER = re.compile(r"\b(expect_\w+)(?:<[^<>]*>)?\s*\(")
PY_ASSERTION = re.compile(r"\braise \w|\bexpect(?:_\w+)?\(")
PY_CALL = re.compile(r"\b(\w+)\(")


@dataclass
class Case:
    name: str  # Suite.Name, or that of the Python function
    first: int  # line of the head, from 0
    end: int  # behind its last line
    asserts: bool
    reported: list[re.Pattern[str]] = field(default_factory=list)  # a run's names of it match one of these

    @property
    def disabled(self) -> bool:
        return "DISABLED_" in self.name


def without_comments(lines: list[str], sign: str) -> str:
    return "\n".join(line for line in lines if not line.lstrip().startswith(sign))


def block_end(lines: list[str], first: int) -> int:
    """Behind the line that closes the braces of the block whose head begins at `first`; the sources are formatted, so it is the next
    line with a closing brace at the head's indentation."""
    indent = len(lines[first]) - len(lines[first].lstrip())
    closing = " " * indent + "}"
    for number in range(first, len(lines)):
        if number == first and lines[first].rstrip().endswith("}"):
            return first + 1
        if lines[number].startswith(closing):
            return number + 1
    return len(lines)


def python_end(lines: list[str], first: int) -> int:
    for number in range(first + 1, len(lines)):
        if lines[number].strip() and not lines[number].startswith((" ", ")")):
            return number
    return len(lines)


@lru_cache(maxsize=None)
def _helpers_of(folder: Path) -> dict[str, str]:
    """Bodies of the functions expect_... that are defined in the sources of this folder."""
    bodies: dict[str, str] = {}
    for path in sorted([*folder.glob("*.cc"), *folder.glob("*.h")]):
        lines = path.read_text(encoding="utf-8").splitlines()
        for first, line in enumerate(lines):
            found = re.match(r"^\s*(?:template\s*<.*>\s*)?[\w:<>&*,\[\] ]+\s(expect_\w+)\(", line)
            if found and not re.match(r"^\s*return\b", line):
                end = block_end(lines, first)
                if "{" in "".join(lines[first:end]):
                    bodies[found[1]] = bodies.get(found[1], "") + without_comments(lines[first:end], "//")
    return bodies


def cc_asserts(body: str, helpers: dict[str, str], seen: frozenset[str] = frozenset()) -> bool:
    """An assertion in the body itself, or in a function expect_... that it calls."""
    if CC_ASSERTION.search(body):
        return True
    called = set(CC_HELPER.findall(body)) - seen
    return any(cc_asserts(helpers.get(name, ""), helpers, seen | called) for name in called)


def cc_cases(path: Path, lines: list[str], support: Path) -> Iterator[Case]:
    helpers = {**_helpers_of(support), **_helpers_of(path.parent)}
    for first, line in enumerate(lines):
        found = CC_CASE.match(line)
        if found is None and re.match(r"^TEST(?:_F|_P)?\(", line) and first + 1 < len(lines):
            found = CC_CASE.match(line + lines[first + 1].strip())
        if found:
            end = block_end(lines, first)
            body = without_comments(lines[first + 1 : end], "//") + lines[first].partition("{")[2]
            name = f"{found[1]}.{found[2]}"
            yield Case(name, first, end, cc_asserts(body, helpers), [re.compile(re.escape(name))])


def py_cases(lines: list[str]) -> Iterator[Case]:
    text = "\n".join(lines)
    places = [(found[1], first) for first, line in enumerate(lines) if (found := PY_CASE.match(line))]
    bodies = {name: without_comments(lines[first + 1 : python_end(lines, first)], "#") for name, first in places}

    def asserts(name: str, seen: frozenset[str]) -> bool:
        body = bodies.get(name, "")
        return bool(PY_ASSERTION.search(body)) or any(
            asserts(called, seen | {called}) for called in set(PY_CALL.findall(body)) & set(bodies) - seen
        )

    for name, first in places:
        # ("name of the case", function), or with the wire in between; {what} differs from case to case.
        named = re.findall(rf'\(\s*f?"([^"\n]+)",(?:\s*\w+,)?\s*{name}\b', text)
        reported = [re.compile(".+".join(re.escape(part) for part in re.split(r"\{[^}]*\}", one))) for one in named]
        yield Case(name, first, python_end(lines, first), asserts(name, frozenset({name})), reported)


def cases_of(path: Path, root: Path) -> list[Case]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(py_cases(lines) if path.suffix == ".py" else cc_cases(path, lines, root / "tests" / "support"))


def case_at(cases: list[Case], line: int) -> Optional[Case]:
    return next((case for case in cases if case.first <= line < case.end), None)
