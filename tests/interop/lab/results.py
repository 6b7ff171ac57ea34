"""What a run found, as JSON: one entry per case, rewritten after each, so that an interrupted run leaves what it has."""

import json
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Sequence

from lab import image
from lab.cases import Case


def versions(kernel: str = image.USUAL) -> dict[str, str]:
    """Of what stands on the other side; `kernel`: the series of the client's Linux."""
    found = {"linux": "unknown", "ganesha": "unknown"}
    try:
        found["linux"] = image.kernel_release(kernel)
        output = subprocess.run(["ganesha.nfsd", "-v"], capture_output=True, text=True, timeout=10, check=False).stdout
        if match := re.search(r"V(\S+)", output):
            found["ganesha"] = match[1]
    except OSError:
        pass
    return found


def commit() -> str:
    """Of the tree that these cases stand in, with "-dirty" behind it where files differ from it; the programs are built from it, as far as
    anyone here can know."""
    here = Path(__file__).resolve().parent
    result = subprocess.run(
        ["git", "-C", str(here), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return result.stdout.strip() or "unknown"


class Results:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._commit = commit()
        self._cases: list[dict[str, Any]] = []

    def add(self, case: Case, seconds: float, reason: str = "") -> None:
        """`reason`: why it failed; empty: it passed."""
        wire = case.wire
        self._cases.append(
            {
                "case": case.name,
                "ok": not reason,
                "seconds": round(seconds, 1),
                "reason": reason,
                "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
                "commit": self._commit,
                "versions": versions(wire.kernel if wire else image.USUAL),
                "kind": wire.kind if wire else "",
                "transport": wire.transport if wire else "",
                "roce_mtu": wire.roce_mtu if wire else 0,
                "backend": wire.backend if wire else "",
            }
        )
        write_results(self._path, self._cases)


def write_results(path: Path, cases: Sequence[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cases": cases}, indent=1) + "\n", encoding="utf-8")
