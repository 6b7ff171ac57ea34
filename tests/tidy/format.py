#!/usr/bin/env python3
"""Checks that clang-format 14 would change no source: format.py ROOT [FILE...]. Exit status 77 when it is not installed."""
import shutil
import subprocess
import sys
from pathlib import Path

from layers import LAYERS


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
    result = subprocess.run([tool, "--dry-run", "--Werror", *files], cwd=root, check=False)
    if result.returncode == 0:
        print(f"{len(files)} files are formatted")
    return 1 if result.returncode else 0


sys.exit(main())
