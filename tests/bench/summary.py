#!/usr/bin/env python3
"""Gathers what the benches wrote in a directory into summary.json there, and prints it as a table. Exit status 1 when a figure
makes no sense.

A row: name, value, unit, baseline (same unit), ratio (to the baseline, above 1 = better than it), spread (quartiles or extremes).
Whatever else a bench says about a figure is kept.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any, Optional

Row = dict[str, Any]


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
    result: Row = {"name": name, "value": statistics.median(values), "unit": unit,
                   "spread": [ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]]}
    if baseline:
        result["baseline"] = statistics.median(baseline)
        ratio = result["value"] / result["baseline"]
        result["ratio"] = ratio if more_is_better else 1 / ratio
    return result


def icrc_rows(times: dict[str, list[float]]) -> list[Row]:
    """Octets per nanosecond are GB/s; bare ISA-L over the same octets stands next to it."""
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


def text(value: Optional[float]) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def main() -> int:
    out = Path(sys.argv[1])
    rows = icrc_rows(google(out / "icrc.json"))
    rows += [row(f"wire/{name.removeprefix('BM_')}", values, "ns") for name, values in google(out / "parse.json").items()]
    rows += load_rows(out / "rpc_pair.json") + load_rows(out / "link.json")
    (out / "summary.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{'figure':44s} {'value':>10s} {'unit':9s} {'baseline':>10s} {'ratio':>6s}  spread")
    for entry in rows:
        print(f"{entry['name']:44s} {text(entry['value']):>10s} {entry['unit']:9s} {text(entry.get('baseline')):>10s} "
              f"{text(entry.get('ratio')):>6s}  [{text(entry['spread'][0])} {text(entry['spread'][1])}]")
    senseless = [entry["name"] for entry in rows if not entry["value"] > 0 or not entry.get("good", True)]
    if senseless or not rows:
        print("no sense in:", ", ".join(senseless) or "nothing was measured")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
