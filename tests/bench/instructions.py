#!/usr/bin/env python3
"""Instructions per RPC, by callgrind: the same on every run and machine, however busy it is.

    instructions.py BUILD_DIR [--case NAME]... [--top N] [--general] [--json FILE]

Runs `rpc_pair_bench --steady` twice with different numbers of calls under valgrind and takes the difference, so that what is done
once does not count. The gateway's half is counted by itself. A release build gives figures worth having; the functions are those
that the compiler left, with what it inlined into them. --general: without the express paths.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

CALLS = (2000, 6000)
HALVES = {"both": None, "gateway": "cw::bench::RpcPair::serve_gateway()"}
CASES = ("null_w32", "echo64_w32", "echo64_w4_c8", "tcp_echo64_w32", "null_w1", "sink64k_mtu4096", "source64k_mtu4096")


def self_costs(text: str) -> Counter[str]:
    """Instructions by function, its callees not counted, from callgrind's file format."""
    names: dict[str, str] = {}
    costs: Counter[str] = Counter()
    current, skip = "", False
    for line in text.splitlines():
        if line.startswith("fn="):
            number, _, name = line[3:].partition(" ")
            names[number] = name or names[number]
            current = names[number]
        elif line.startswith("cfn="):
            number, _, name = line[4:].partition(" ")
            if name:
                names[number] = name
        elif line.startswith("calls="):
            skip = True  # the next line is the callee's cost
        elif line[:1] in "+-*0123456789" and line[:1]:
            if not skip:
                costs[current] += int(line.split()[1])
            skip = False
    return costs


def count(bench: list[str], case: str, calls: int, function: str | None) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        command += [f"--toggle-collect={function}"] if function else []
        result = subprocess.run(
            [*command, *bench, "--steady", case, "--calls", str(calls)], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            sys.exit(f"instructions.py: {case}: {result.stderr.strip().splitlines()[-1]}")
        return self_costs(out.read_text())


def short(name: str) -> str:
    return re.sub(
        r"\(anonymous namespace\)::|'\d+$",
        "",
        name.split("(")[0] if "(anonymous" not in name else re.sub(r"\((?!anonymous).*", "", name),
    )


def measure(bench: list[str], case: str, top: int) -> dict[str, float]:
    figures = {}
    for half, function in HALVES.items():
        few, many = (count(bench, case, calls, function) for calls in CALLS)
        per_call = {name: (cost - few[name]) / (CALLS[1] - CALLS[0]) for name, cost in many.items()}
        figures[half] = sum(per_call.values())
        if half == "gateway" and top:
            for name, cost in sorted(per_call.items(), key=lambda item: -item[1])[:top]:
                print(f"    {cost:8.1f}  {short(name)}")
    print(f"{case:20} {figures['both']:8.0f} instructions per RPC, {figures['gateway']:8.0f} of them the gateway's")
    return figures


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", type=Path)
    options.add_argument("--case", action="append", help=f"default: {', '.join(CASES)}")
    options.add_argument("--top", type=int, default=0, help="so many functions of the gateway's half")
    options.add_argument("--general", action="store_true", help="without the express paths")
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    bench = [str(chosen.build / "tests/bench/rpc_pair_bench"), *(["--express", "no"] if chosen.general else [])]
    rows = []
    for case in chosen.case or CASES:
        figures = measure(bench, case, chosen.top)
        rows += [
            {
                "name": f"instructions/{case}/{half}",
                "value": round(value),
                "unit": "instructions per RPC",
                "spread": [value, value],
            }
            for half, value in figures.items()
        ]
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
