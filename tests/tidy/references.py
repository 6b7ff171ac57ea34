#!/usr/bin/env python3
"""Checks that what sources refer to is in the tree: references.py ROOT

Refused: numbers of decisions, style rules and notes that no page has (docs/architecture.md and docs/style.md have names); a row of
tests/requirements/hostile.md without that name behind it, or one that is not there; a page (NAME.md) that does not exist; a heading or reading of
docs/architecture.md, in quotation marks behind its name, that does not exist.
"""
import re
import sys
from pathlib import Path

ENDINGS = {".h", ".cc", ".c", ".py", ".sh", ".js", ".md", ".toml", ".yml", ".yaml", ".tsv", ".build", ".conf", ".service"}
LEFT_OUT = re.compile(r"(build[^/]*|\.[^/]+|node_modules)(/|$)|tests/(fuzz/corpus|golden/packets)/")
NUMBERED = re.compile(r"\b(design decisions?|decisions?|style rules?|notes?) \d+", re.IGNORECASE)
ROW = re.compile(r"//\s+([BCFPR]\d{1,2})\b(?!_)")  # as the beginning of a comment
ROWS_NAMED = re.compile(r"((?:[BCFPR]\d{1,2}(?:, | and | to )?)+)(?: and \S+)? of tests/requirements/hostile\.md")
PAGE = re.compile(r"(?<![\w/.*<{$-])((?:\.\./)*[A-Za-z][\w/-]*\.md)\b")
NAME_OF_DECISION = re.compile(r'docs/architecture\.md, "([^"]+)"')


def names_of_architecture(root: Path) -> set[str]:
    text = (root / "docs/architecture.md").read_text(encoding="utf-8")
    return {*re.findall(r"^#+ (.+)$", text, re.MULTILINE), *re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)}


def rows_of_hostile(root: Path) -> set[str]:
    return set(
        re.findall(r"^\| ([BCFPR]\d+) \|", (root / "tests/requirements/hostile.md").read_text(encoding="utf-8"), re.MULTILINE)
    )


def check_line(line: str, pages: set[str], decisions: set[str], rows: set[str]) -> list[str]:
    problems = [f"{found[0]!r}: refer by a name that stands in docs/, or give the reason" for found in NUMBERED.finditer(line)]
    if (found := ROW.search(line)) and "hostile.md" not in line:
        problems.append(f'{found[1]}: say of which page: "{found[1]} of tests/requirements/hostile.md"')
    for found in ROWS_NAMED.finditer(line):
        problems += [
            f"tests/requirements/hostile.md has no {row}" for row in re.findall(r"[BCFPR]\d+", found[1]) if row not in rows
        ]
    # By its path or a part of it: sources name pages from the root, pages those beside them.
    problems += [
        f"no {found[1]}"
        for found in PAGE.finditer(line)
        if not any(page.endswith("/" + found[1].replace("../", "")) for page in pages)
    ]
    problems += [
        f"docs/architecture.md has no {found[1]!r}" for found in NAME_OF_DECISION.finditer(line) if found[1] not in decisions
    ]
    return problems


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    files = [path for path in sorted(root.rglob("*")) if path.suffix in ENDINGS or path.name in (".clang-tidy", ".editorconfig")]
    files = [path for path in files if path.is_file() and not LEFT_OUT.match(path.relative_to(root).as_posix())]
    pages = {"/" + path.relative_to(root).as_posix() for path in files if path.suffix == ".md"}
    pages |= {"/causeway/RUNBOOK.md"}  # as installed for Prometheus
    decisions, rows = names_of_architecture(root), rows_of_hostile(root)
    problems = []
    for path in files:
        if path == Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            problems += [f"{path.relative_to(root)}:{number}: {problem}" for problem in check_line(line, pages, decisions, rows)]
    print("\n".join(problems) if problems else f"{len(files)} files refer to nothing outside the tree")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
