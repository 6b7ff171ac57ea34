#!/usr/bin/env python3
"""Runs the linters and formatters of Python, shell and JavaScript: lint.py TOOL [--fix] [FILE...]

    black     layout of Python             pyproject.toml
    flake8    mistakes in Python           .flake8
    shfmt     layout of shell scripts      .editorconfig
    shellcheck  mistakes in shell scripts  .shellcheckrc
    eslint    both for the live page       .eslintrc.json
    all       all of them

Without files: every file of the tree that the tool is for; files of other kinds are passed over. --fix lets black, shfmt and eslint
change the files instead of complaining. All are packages of Debian 12, whose versions decide what good layout is. Exit status 77 when
the tool is not installed.
"""
import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# Debian's modules of node, for a node that is not Debian's.
NODE_MODULES = "/usr/share/nodejs"


class Tool(NamedTuple):
    language: str
    check: list[str]
    fix: list[str]  # empty: a person has to


TOOLS = {
    "black": Tool("python", ["black", "--quiet", "--diff", "--check"], ["black", "--quiet"]),
    "flake8": Tool("python", ["flake8"], []),
    "shfmt": Tool("shell", ["shfmt", "--diff"], ["shfmt", "--write"]),
    "shellcheck": Tool("shell", ["shellcheck", "--format=gcc"], []),
    "eslint": Tool("javascript", ["eslint", "--format=unix"], ["eslint", "--format=unix", "--fix"]),
}
SUFFIXES = {".py": "python", ".sh": "shell", ".js": "javascript"}


def language_of(path: Path) -> str | None:
    """By its suffix, or by its first line where it has none."""
    if path.suffix:
        return SUFFIXES.get(path.suffix)
    with path.open("rb") as file:
        first = file.readline(80)
    if not first.startswith(b"#!"):
        return None
    return "python" if b"python" in first else "shell" if first.rstrip().endswith((b"/sh", b"bash", b" sh")) else None


def tree() -> Iterator[Path]:
    for folder, names, files in os.walk(ROOT):
        top = Path(folder) == ROOT
        names[:] = sorted(
            name
            for name in names
            if name not in (".git", "node_modules", "__pycache__") and not (top and name.startswith("build"))
        )
        yield from (path for name in sorted(files) if (path := Path(folder) / name).is_file() and not path.is_symlink())


def run(name: str, paths: list[Path], fix: bool) -> int:
    tool = TOOLS[name]
    command = tool.fix if fix else tool.check
    files = [str(path.relative_to(ROOT)) for path in paths if language_of(path) == tool.language]
    if not command or not files:
        return 0
    if shutil.which(command[0]) is None:
        print(f"{name} is not installed")
        return 77
    environment = {**os.environ, "NODE_PATH": NODE_MODULES}
    status = subprocess.run([*command, *files], cwd=ROOT, env=environment, check=False).returncode
    print(f"{name}: {len(files)} files" + (", with findings" if status else ""))
    if status and tool.fix and not fix:
        print(f"To fix the layout: tests/tidy/lint.py {name} --fix")
    return 1 if status else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=[*TOOLS, "all"])
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_intermixed_args()
    paths = [path.resolve() for path in options.files if path.is_file()] if options.files else list(tree())
    statuses = [run(name, paths, options.fix) for name in (TOOLS if options.tool == "all" else [options.tool])]
    return max(statuses, key=[0, 77, 1].index)


sys.exit(main())
