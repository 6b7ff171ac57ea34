#!/usr/bin/env python3
"""Checks what the operator's pages say against the tree: docs.py ROOT. Links lead to files and headings that are there, metrics are ones that
causewayd exports, keys of the configuration are in its reference."""

import re
import sys
from pathlib import Path

PAGES = ("README.md", "deploy/README.md", "deploy/GUIDE.md", "deploy/SECURITY.md", "deploy/monitoring/README.md", "deploy/monitoring/RUNBOOK.md")
SUFFIXES = ("", "_bucket", "_count", "_sum")
# Keys as the pages write them: `section.key`.
SECTIONS = ("gateway", "dataplane", "port", "listener", "backend", "limits", "roce", "metrics", "admin", "log")


def exported(root: Path) -> set[str]:
    text = (root / "tests/unit/telemetry/metrics.golden").read_text(encoding="utf-8")
    return {name + suffix for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE) for suffix in SUFFIXES}


def keys(root: Path) -> set[str]:
    found, section = set(), ""
    for line in (root / "deploy/config/causeway.toml").read_text(encoding="utf-8").splitlines():
        if header := re.fullmatch(r"\[+(\w+)\]+", line):
            section = header[1]
        elif key := re.match(r"#?(\w+) = ", line):
            found.add(f"{section}.{key[1]}")
    return found


def anchors(text: str) -> set[str]:
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def check_links(root: Path, page: str, text: str) -> list[str]:
    problems = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        path = (root / page).parent / name if name else root / page
        if not path.exists():
            problems.append(f"{page}: no {target}")
        elif anchor and anchor not in anchors(path.read_text(encoding="utf-8")):
            problems.append(f"{page}: {target}: no such heading")
    return problems


def check_metrics(page: str, text: str, known: set[str]) -> list[str]:
    """Whole names; beginnings, as `causewayctl stats` takes them, have to begin something."""
    names = set(re.findall(r"(?<![/\w])causeway_\w+", text))
    return [f"{page}: causewayd exports no {name}" for name in sorted(names) if not any(each.startswith(name) for each in known)]


def check_keys(page: str, text: str, known: set[str]) -> list[str]:
    named = set(re.findall(r"`((?:" + "|".join(SECTIONS) + r")\.\w+)[` =]", text))
    files = (".md", ".toml", ".h", ".cc", ".py", ".sh", ".conf")
    return [f"{page}: the configuration has no {name}" for name in sorted(named - known) if not name.endswith(files)]


def main() -> int:
    root = Path(sys.argv[1])
    metrics, settings = exported(root), keys(root)
    problems = []
    for page in PAGES:
        text = (root / page).read_text(encoding="utf-8")
        problems += check_links(root, page, text) + check_metrics(page, text, metrics) + check_keys(page, text, settings)
    print("\n".join(problems) if problems else f"{len(PAGES)} pages name what there is")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
