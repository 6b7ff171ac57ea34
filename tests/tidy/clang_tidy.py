#!/usr/bin/env python3
"""Runs clang-tidy with the checks of .clang-tidy: clang_tidy.py BUILD [--changed [BASE] [--seconds N] [--most N]] [FILE...]

Without files: every source of the project that BUILD compiles, which takes half an hour on two CPUs. With --changed: what the commits
since the merge base with BASE and the working tree have changed (default: CLANG_TIDY_BASE, origin/main or main; on that commit itself,
its first parent; without a merge base, everything). A changed header is seen through one source, its own or the first that includes it.
--seconds: sources that have not begun by then are told as skipped. --most: when more have changed, all are: a change of the whole tree
is for a run without --changed. Two at a time; an "ok" line per source says how long it took. The
last line is "N passed, N failed", in files without and findings; exit status 1 when there was a finding, 77 when clang-tidy is not
installed.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from changes import ROOT, changed_since, merge_base, users_of

FINDING = re.compile(r"^(\S+?)(:\d+:\d+: (?:warning|error): .*)")


def one_by_one(entry: dict[str, str]) -> list[dict[str, str]]:
    """Meson compiles several sources as one by a file that includes them: an entry for each of them."""
    group = Path(entry["directory"]) / entry["file"]
    if not re.search(r"-unity\d+\.cpp$", group.name):
        return [entry]
    names = re.findall(r"^#include\s*<(.+)>", group.read_text(encoding="utf-8"), re.MULTILINE)
    files = [os.path.relpath((group.parent / name).resolve(), entry["directory"]) for name in names]
    return [entry | {"file": file, "command": entry["command"].replace(entry["file"], file)} for file in files]


def commands_of(build: Path, commands: Path) -> set[Path]:
    """Writes the compiler's commands into this folder, one for each source, and says for which sources of ours."""
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    single = [one for entry in entries for one in one_by_one(entry)]
    (commands / "compile_commands.json").write_text(json.dumps(single), encoding="utf-8")
    files = {(Path(entry["directory"]) / entry["file"]).resolve() for entry in single}
    return {file for file in files if file.is_relative_to(ROOT)}


def seen_through(header: Path, compiled: set[Path]) -> list[Path]:
    own = header.with_suffix(".cc")
    if own in compiled:
        return [own]
    return [file for file in users_of(header, "*.cc") if file in compiled][:1]


def changed_sources(base: str, compiled: set[Path]) -> list[Path]:
    files: set[Path] = set()
    for path in changed_since(base, "*.cc", "*.h"):
        files.update(seen_through(path, compiled) if path.suffix == ".h" else {path} & compiled)
    return sorted(files)


def sources(compiled: set[Path], options: argparse.Namespace) -> list[Path]:
    if options.files:
        files = {path.resolve() for path in options.files}
        for missing in sorted(files - compiled):
            print(f"{missing}: not compiled in {options.build}")
        return sorted(files & compiled)
    if options.changed is None:
        return sorted(compiled)
    base = merge_base(options.changed or None)
    print(f"clang-tidy: what has changed since {base}" if base else "clang-tidy: no merge base, hence everything", flush=True)
    return changed_sources(base, compiled) if base else sorted(compiled)


def run(tool: str, commands: Path, file: Path) -> str:
    # The commands are g++'s: clang need not know each of its warnings.
    command = [tool, "-p", str(commands), "--quiet", "--extra-arg=-Wno-unknown-warning-option", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--changed", nargs="?", const="", metavar="BASE")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--most", type=int, default=sys.maxsize)
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_intermixed_args()
    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if tool is None:
        print("clang-tidy is not installed")
        return 77
    commands = options.build / "clang-tidy"
    commands.mkdir(exist_ok=True)
    files = sources(commands_of(options.build, commands), options)
    if options.changed is not None and len(files) > options.most:
        print(f"skip all: clang-tidy looks at up to {options.most} changed files, and {len(files)} have changed")
        print("0 passed, 0 failed")
        return 0
    begun = time.monotonic()

    def looked_at(file: Path) -> tuple[Path, str | None, float]:
        start = time.monotonic()
        output = run(tool, commands, file) if start - begun < options.seconds else None
        return file, output, time.monotonic() - start

    findings: set[str] = set()
    clean = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        for file, output, seconds in pool.map(looked_at, files):
            name = file.relative_to(ROOT).as_posix()
            if output is None:
                print(f"skip {name}: clang-tidy had {options.seconds:.0f} s and did not come to it", flush=True)
                continue
            found = [match for line in output.splitlines() if (match := FINDING.match(line))]
            if not found:
                clean += 1
                print(f"ok {name} ({seconds:.1f} s)", flush=True)
            for match in found:
                # Names are relative to BUILD or absolute; a header's findings come with each of its users.
                finding = os.path.relpath(options.build / match.group(1), ROOT) + match.group(2)
                if finding not in findings:
                    findings.add(finding)
                    print(f"FAIL {finding}", flush=True)
    if not files and options.changed is not None:
        print("ok nothing that clang-tidy reads has changed")
        clean = 1
    print(f"{clean} passed, {len(findings)} failed")
    return 1 if findings or not (files or clean) else 0


sys.exit(main())
