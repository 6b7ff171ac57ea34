#!/usr/bin/env python3
"""Instructions per RPC, by callgrind: the same on every run and machine, however busy it is.

    instructions.py BUILD_DIR [--case NAME]... [--top N] [--general] [--json FILE]
    instructions.py BUILD_DIR --gate    has any of a few cases become dearer than instructions.json says?
    instructions.py BUILD_DIR --take    writes instructions.json anew, of a build as tests/run.sh makes it

Runs `rpc_pair_bench --steady` twice with different numbers of calls under valgrind and takes the difference, so that what is done
once does not count. The gateway's half is counted by itself. A release build gives figures worth having; the functions are those
that the compiler left, with what it inlined into them. --general: without the express paths.

The gate looks at the gateway's half in a build that is optimized without a profile, which is what every change is tested in. Another
compiler or other options give other figures, so each build is compared with its like only.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

CALLS = (2000, 6000)
HALVES = {"both": None, "gateway": "cw::bench::RpcPair::serve_gateway()"}
KNOWN = Path(__file__).with_name("instructions.json")
GATED = ("null_w32", "echo64_w4_c8", "tcp_echo64_w32", "write16k_mtu1024", "null_w32 --general")
DEARER = 0.02  # what another processor may add, whose C library copies another way
CHEAPER = 0.05  # so much less is worth keeping
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


def measure(bench: list[str], case: str, top: int, halves: tuple[str, ...] = tuple(HALVES)) -> dict[str, float]:
    figures = {}
    for half in halves:
        function = HALVES[half]
        few, many = (count(bench, case, calls, function) for calls in CALLS)
        per_call = {name: (cost - few[name]) / (CALLS[1] - CALLS[0]) for name, cost in many.items()}
        figures[half] = sum(per_call.values())
        if half == "gateway" and top:
            for name, cost in sorted(per_call.items(), key=lambda item: -item[1])[:top]:
                print(f"    {cost:8.1f}  {short(name)}")
    if len(figures) > 1:
        print(f"{case:20} {figures['both']:8.0f} instructions per RPC, {figures['gateway']:8.0f} of them the gateway's")
    return figures


def made_by(build: Path) -> str:
    """The compiler and those of meson's options that decide what it makes of a source."""
    command = json.loads((build / "compile_commands.json").read_text())[0]["command"].split()
    compiler = next(word for word in command if not word.endswith("ccache"))
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    known = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
    options = {entry["name"]: entry["value"] for entry in known}
    named = [f"{name}={options[name]}" for name in ("optimization", "b_lto", "b_pgo", "b_ndebug", "b_sanitize")]
    return f"{compiler} {version}, {', '.join(named)}"


def gated_figures(program: Path) -> dict[str, int]:
    figures = {}
    for name in GATED:
        case, _, general = name.partition(" ")
        bench = [str(program), *(["--express", "no"] if general else [])]
        figures[name] = round(measure(bench, case, 0, ("gateway",))["gateway"])
    return figures


def gate(build: Path) -> int:
    known = json.loads(KNOWN.read_text())
    if made_by(build) != known["build"]:
        print(f"not compared: {made_by(build)}; {KNOWN.name} is of {known['build']}")
        return 0
    if not shutil.which("valgrind"):
        print("not compared: valgrind is not installed")
        return 0
    failed = 0
    for name, now in gated_figures(build / "tests/bench/rpc_pair_bench").items():
        before = known["gateway"][name]
        verdict = ""
        if now > before * (1 + DEARER):
            verdict = f"dearer: what made it so? If it is worth it, say so and renew {KNOWN.name} with --take"
            failed += 1
        elif now < before * (1 - CHEAPER):
            verdict = f"cheaper: keep it with --take, which renews {KNOWN.name}"
        print(f"{name:20} {now:8} instructions of the gateway per RPC, {before} before  {verdict}".rstrip())
    return 1 if failed else 0


def take(build: Path) -> int:
    figures = gated_figures(build / "tests/bench/rpc_pair_bench")
    KNOWN.write_text(json.dumps({"build": made_by(build), "gateway": figures}, indent=1) + "\n")
    print(KNOWN.read_text(), end="")
    return 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", type=Path)
    options.add_argument("--case", action="append", help=f"default: {', '.join(CASES)}")
    options.add_argument("--top", type=int, default=0, help="so many functions of the gateway's half")
    options.add_argument("--general", action="store_true", help="without the express paths")
    options.add_argument("--json", type=Path)
    options.add_argument("--gate", action="store_true", help="compare with instructions.json")
    options.add_argument("--take", action="store_true", help="renew instructions.json")
    chosen = options.parse_args()
    if chosen.gate or chosen.take:
        return gate(chosen.build) if chosen.gate else take(chosen.build)
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
