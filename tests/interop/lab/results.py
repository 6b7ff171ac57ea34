"""What a run found, as JSON: one entry per case, rewritten after each, so that an interrupted run leaves what it has."""

import json
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Sequence

from lab import image
from lab.cases import Case


def versions() -> dict[str, str]:
    """Of what stands on the other side."""
    found = {"linux": "unknown", "ganesha": "unknown"}
    try:
        found["linux"] = image.kernel_release()
        output = subprocess.run(["ganesha.nfsd", "-v"], capture_output=True, text=True, timeout=10, check=False).stdout
        if match := re.search(r"V(\S+)", output):
            found["ganesha"] = match[1]
    except OSError:
        pass
    return found


class Results:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._versions = versions()
        self._cases: list[dict[str, Any]] = []

    def add(self, case: Case, seconds: float, reason: str = "") -> None:
        """`reason`: why it failed; empty: it passed."""
        wire = case.wire
        self._cases.append({
            "case": case.name, "ok": not reason, "seconds": round(seconds, 1), "reason": reason,
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "versions": self._versions,
            "kind": wire.kind if wire else "", "transport": wire.transport if wire else "",
            "roce_mtu": wire.roce_mtu if wire else 0, "backend": wire.backend if wire else ""})
        write_results(self._path, self._cases)


def write_results(path: Path, cases: Sequence[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cases": cases}, indent=1) + "\n", encoding="utf-8")
