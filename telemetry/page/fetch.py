#!/usr/bin/env python3
"""Has npm fetch what a package.json names: fetch.py NPM PACKAGE.JSON PACKAGE-LOCK.JSON BUILD_DIR

Exactly the versions of the lock file, checked against its hashes, into BUILD_DIR/node_modules; scripts of packages are not run.
Quick when they are there already. Exit status 1, and the reason on the last line, when they cannot be had: npm needs its registry
once.
"""
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

# npm asks again for minutes by default; a build without a network should not wait for that.
OPTIONS = [
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--prefer-offline",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
    "--fetch-timeout=30000",
]


def main() -> int:
    npm, package, lock, build = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    wanted = hashlib.sha256(lock.read_bytes() + package.read_bytes()).hexdigest()
    stamp = build / "node_modules" / ".fetched"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        print("there already")
        return 0
    build.mkdir(parents=True, exist_ok=True)
    shutil.copy(package, build / "package.json")
    shutil.copy(lock, build / "package-lock.json")
    environment = dict(os.environ)
    if not os.access(Path.home(), os.W_OK):
        environment["npm_config_cache"] = str(build / "npm-cache")
    try:
        done = subprocess.run(
            [npm, "ci", *OPTIONS],
            cwd=build,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(error)
        return 1
    if done.returncode != 0:
        causes = [line for line in done.stdout.splitlines() if "error" in line.lower() and "log" not in line.lower()]
        print(causes[0] if causes else f"npm ci ended with exit status {done.returncode}")
        return 1
    stamp.write_text(wanted, encoding="utf-8")
    print("fetched")
    return 0


sys.exit(main())
