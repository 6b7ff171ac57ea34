#!/usr/bin/env python3
"""Gathers what the benches wrote in a directory into summary.json there, and prints it as tables. Exit status 1 when a figure
makes no sense.

    summary.py DIRECTORY [BUILD]       BUILD: what was measured, "release build with profile"

summary.json: {"machine": ..., "figures": [...], "targets": [...], "published": [...]}. A figure: name, value, unit, baseline (same unit)
and what it is (beside), ratio (to the baseline, above 1 = better than it), spread (quartiles or extremes), state of the two CPUs where
two matter; absent = why, when it could not be taken here. Whatever else a bench says about a figure is kept. A target: what, figure,
floor, target, moonshot, what we have, verdict (targets.py). Published are the targets that have a figure, each with its run: date,
commit, build and machine (published.py).
"""

import datetime
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

from targets import Row, derived, judged, text

BENCHES = (
    "rpc_pair",
    "connections",
    "cores",
    "latency",
    "socket_loop",
    "handoff",
    "link",
    "gateway",
    "messages",
    "scrape",
    "iwarp",
)


def google(path: Path) -> dict[str, list[float]]:
    """Nanoseconds of CPU time of every repetition, by benchmark."""
    if not path.exists():
        return {}
    times: dict[str, list[float]] = {}
    for run in json.loads(path.read_text())["benchmarks"]:
        if run.get("run_type") == "iteration":
            times.setdefault(run["run_name"], []).append(run["cpu_time"])
    return times


def row(name: str, values: list[float], unit: str, baseline: Optional[list[float]] = None, more_is_better: bool = False) -> Row:
    ordered = sorted(values)
    result: Row = {
        "name": name,
        "value": statistics.median(values),
        "unit": unit,
        "spread": [ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]],
    }
    if baseline:
        result["baseline"] = statistics.median(baseline)
        ratio = result["value"] / result["baseline"]
        result["ratio"] = ratio if more_is_better else 1 / ratio
    return result


def icrc_rows(times: dict[str, list[float]]) -> list[Row]:
    """Bytes per nanosecond are GB/s; bare ISA-L over the same bytes stands next to it."""
    rows = []
    for name, values in times.items():
        kind, size = name.split("/")
        if kind not in ("BM_Icrc", "BM_IcrcOfTwoPieces"):
            continue
        rates = [int(size) / value for value in values]
        bare = [int(size) / value for value in times.get(f"BM_BareCrc/{size}", [])]
        label = "one_piece" if kind == "BM_Icrc" else "two_pieces"
        rows.append(row(f"icrc/{label}/{size}", rates, "GB/s", bare, more_is_better=True))
    return rows


def load_rows(path: Path) -> list[Row]:
    return json.loads(path.read_text()) if path.exists() else []


def machine() -> dict[str, Any]:
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {"cpu": model[1] if model else "unknown", "cpus": len(os.sched_getaffinity(0)), "load_average": list(os.getloadavg())}


def commit() -> str:
    """Of the tree; "-dirty" when files differ from it; "unknown" where there is no repository."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def print_figures(rows: list[Row]) -> None:
    print(f"{'figure':46s} {'value':>10s} {'unit':12s} {'baseline':>10s} {'ratio':>6s}  spread")
    for entry in rows:
        if "absent" in entry:
            print(f"{entry['name']:46s} absent: {entry['absent']}")
            continue
        print(
            f"{entry['name']:46s} {text(entry['value']):>10s} {entry['unit']:12s} {text(entry.get('baseline')):>10s} "
            f"{text(entry.get('ratio')):>6s}  [{text(entry['spread'][0])} {text(entry['spread'][1])}] {entry.get('state', '')}"
        )


def print_targets(targets: list[Row]) -> None:
    print(f"\n{'target':70s} {'have':>8s} {'floor':>7s} {'target':>7s} {'moonsh.':>7s}  verdict")
    for entry in targets:
        bounds = " ".join(f"{text(entry[key]):>7s}" for key in ("floor", "target", "moonshot"))
        print(
            f"{entry['what']:70s} {text(entry.get('have')):>8s} {bounds}  {entry['verdict']}"
            f"{' (' + entry['state'] + ')' if 'state' in entry else ''}"
        )


def main() -> int:
    out = Path(sys.argv[1])
    rows = icrc_rows(google(out / "icrc.json"))
    rows += [row(f"wire/{name.removeprefix('BM_')}", values, "ns") for name, values in google(out / "parse.json").items()]
    rows += [row(f"recorder/{name.removeprefix('BM_')}", values, "ns") for name, values in google(out / "recorder.json").items()]
    for bench in BENCHES:
        rows += load_rows(out / f"{bench}.json")
    rows += derived(rows)
    targets = judged(rows)
    host = machine()
    build = sys.argv[2] if len(sys.argv) > 2 else "debug build"
    this_run = [datetime.date.today().isoformat(), commit(), build, f"{host['cpus']} CPUs of {host['cpu']}"]
    published = [entry | {"run": this_run} for entry in targets if "have" in entry]
    summary = {"machine": host, "figures": rows, "targets": targets, "published": published}
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    print_figures(rows)
    print_targets(targets)
    senseless = [
        entry["name"] for entry in rows if "absent" not in entry and (not entry["value"] > 0 or not entry.get("good", True))
    ]
    if senseless or not rows:
        print("no sense in:", ", ".join(senseless) or "nothing was measured")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
