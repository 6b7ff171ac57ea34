"""What has changed in the working tree since it left main."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def git(*arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def merge_base(wanted: str | None = None) -> str | None:
    """Where the changes begin; None when git knows no such place."""
    for name in [wanted] if wanted else [os.environ.get("CLANG_TIDY_BASE"), "origin/main", "main"]:
        base = git("merge-base", "HEAD", name) if name else None
        if base:
            return git("rev-parse", "--verify", "--quiet", "HEAD^1") if base == git("rev-parse", "HEAD") else base
    return None


def changed_since(base: str, *patterns: str) -> list[Path]:
    names = git("diff", "--name-only", "--diff-filter=d", base, "--", *patterns) or ""
    return [ROOT / name for name in names.splitlines()]


def users_of(header: Path, *patterns: str) -> list[Path]:
    """Who includes it, directly."""
    include = f'#include "{header.relative_to(ROOT).as_posix()}"'
    names = git("grep", "-l", "--fixed-strings", include, "--", *patterns) or ""
    return [ROOT / name for name in names.splitlines()]
