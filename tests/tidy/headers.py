#!/usr/bin/env python3
"""Checks that every header compiles alone: headers.py BUILD [FILE...]

A header with a .cc of the same name is proved by that file, which includes it first. The others are compiled by themselves, with
the flags of a source near them; headers of folders that BUILD does not compile are left out. All of them take minutes: with
HEADERS_CHANGED in the environment, only those that have changed since main and those that include one of these directly.
"""
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from changes import ROOT, changed_since, merge_base, users_of
from layers import LAYERS


def flags_of(entry: dict) -> list[str]:
    """What of the command is not about this one source: include paths, macros, language, warnings."""
    words = shlex.split(entry["command"])
    while words[0].endswith("ccache"):
        words.pop(0)
    kept = [words[0]]
    skip = False
    for word in words[1:]:
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MQ"):
            skip = True
        elif word not in ("-c", "-MD", entry["file"]):
            kept.append(word)
    return kept


def sees_root(entry: dict) -> bool:
    paths = [word[2:] for word in shlex.split(entry["command"]) if word.startswith("-I")]
    return any(Path(os.path.normpath(Path(entry["directory"]) / path)) == ROOT for path in paths)


def source_of(entry: dict) -> Path:
    """Several sources that meson compiles as one lie below the build directory: as if they were where the target is defined."""
    build = Path(entry["directory"])
    source = Path(os.path.normpath(build / entry["file"]))
    if source.parent.suffix == ".p" and source.is_relative_to(build):
        return ROOT / source.parent.parent.relative_to(build) / source.name
    return source


def nearest(header: Path, commands: dict[Path, dict]) -> dict | None:
    """A source of the same folder, else of the closest folder above or below it within the layer."""
    folder = header.parent
    while folder != ROOT:
        near = [source for source in sorted(commands) if source.is_relative_to(folder)]
        if near:
            return commands[near[0]]
        folder = folder.parent
    return None


def check(header: Path, entry: dict) -> str:
    # Through standard input, so that #pragma once does not complain about a main file.
    name = header.relative_to(ROOT).as_posix()
    command = [*flags_of(entry), "-fsyntax-only", "-x", "c++", "-"]
    result = subprocess.run(
        command, cwd=entry["directory"], input=f'#include "{name}"\n', capture_output=True, text=True, check=False
    )
    return "" if result.returncode == 0 else f"{name} does not compile alone:\n{result.stderr}"


def main() -> int:
    build = Path(sys.argv[1])
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    commands = {source_of(entry): entry for entry in entries if sees_root(entry)}
    tree = (h for layer in LAYERS for h in sorted((ROOT / layer).rglob("*.h")))
    wanted = [Path(name).resolve() for name in sys.argv[2:]]
    if "HEADERS_CHANGED" in os.environ and (base := merge_base()):
        changed = changed_since(base, "*.h")
        near = {*changed, *(user for header in changed for user in users_of(header, "*.h"))}
        tree = (header for header in sorted(near) if header.relative_to(ROOT).parts[0] in LAYERS)
        print(f"headers that have changed since {base}, or include one that has:")
    headers = [
        h for h in (wanted or tree) if h.suffix == ".h" and h.exists() and (wanted or h.with_suffix(".cc") not in commands)
    ]
    work = [(header, entry) for header in headers if (entry := nearest(header, commands)) is not None]
    with ThreadPoolExecutor(max_workers=2) as pool:
        problems = [problem for problem in pool.map(lambda item: check(*item), work) if problem]
    print("\n".join(problems) if problems else f"{len(work)} headers compile alone")
    return 1 if problems or not (work or wanted or "HEADERS_CHANGED" in os.environ) else 0


sys.exit(main())
