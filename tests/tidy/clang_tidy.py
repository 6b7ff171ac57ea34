#!/usr/bin/env python3
"""Runs clang-tidy with the checks of .clang-tidy: clang_tidy.py BUILD [FILE...]

Without files: every source of the project that BUILD compiles. Two at a time. The last line is "N passed, N failed", in files
without and findings; exit status 1 when there was a finding, 77 when clang-tidy is not installed.
"""
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FINDING = re.compile(r"^(\S+?)(:\d+:\d+: (?:warning|error): .*)")


def sources(build: Path, wanted: list[str]) -> list[Path]:
    compiled = {
        (Path(entry["directory"]) / entry["file"]).resolve()
        for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    }
    if wanted:
        files = {Path(name).resolve() for name in wanted}
        for missing in sorted(files - compiled):
            print(f"{missing}: not compiled in {build}")
        return sorted(files & compiled)
    return sorted(file for file in compiled if file.is_relative_to(ROOT))


def run(tool: str, build: Path, file: Path) -> str:
    # The commands are g++'s: clang need not know each of its warnings.
    command = [tool, "-p", str(build), "--quiet", "--extra-arg=-Wno-unknown-warning-option", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def main() -> int:
    build = Path(sys.argv[1])
    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if tool is None:
        print("clang-tidy is not installed")
        return 77
    files = sources(build, sys.argv[2:])
    findings: set[str] = set()
    clean = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        for output in pool.map(lambda file: run(tool, build, file), files):
            clean += 0 if any(FINDING.match(line) for line in output.splitlines()) else 1
            for line in output.splitlines():
                found = FINDING.match(line)
                if found is None:
                    continue
                # Names are relative to BUILD or absolute; a header's findings come with each of its users.
                finding = os.path.relpath(build / found.group(1), ROOT) + found.group(2)
                if finding not in findings:
                    findings.add(finding)
                    print(finding, flush=True)
    print(f"{clean} passed, {len(findings)} failed")
    return 1 if findings or not files else 0


sys.exit(main())
