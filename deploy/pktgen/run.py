#!/usr/bin/env python3
"""Plays a capture of `causeway-load pktgen` with Pktgen-DPDK into causewayd, and compares causewayd's metrics with it.

  causeway-load pktgen noise --server 10.9.0.1 --client 10.9.0.2 --output noise.pcap
  deploy/pktgen/run.py noise.pcap --pktgen /opt/pktgen/bin/pktgen --vhost /run/causeway/vhost.sock

causewayd runs with a port net_vhost0,iface=SOCKET. Pktgen runs headless on a virtio-user device at that socket, or on the device that
--device names, with the profile of this folder that the capture says (NAME.lua). Everything Pktgen prints goes to --log; lines of the
profile are shown. Afterwards the counters that the capture promises stand next to those that causewayd shows.

Exit status: 0 played (and, with --passes, every counter as promised), 1 not, 2 wrong usage.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).resolve().parent
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
SCRAPE_LIMIT_S = 5

Samples = list[tuple[str, dict[str, str], float]]


class Trouble(Exception):
    """One sentence for the operator."""


def read_expected(pcap: Path) -> dict[str, Any]:
    path = pcap.with_suffix(".json")
    try:
        expected = json.loads(path.read_text())
        for key in ("profile", "frames", "first_pass", "further_pass", "remarks"):
            expected[key]
    except (OSError, ValueError, KeyError) as error:
        raise Trouble(f"{path}: {error}; `causeway-load pktgen` writes it beside the capture, keep them together") from None
    return expected


def scrape(address: str) -> Samples:
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=SCRAPE_LIMIT_S) as response:
            text = response.read().decode()
    except OSError as error:
        raise Trouble(f"metrics of causewayd at {address}: {error}; see [metrics] listen, or say --metrics off") from None
    found = (SAMPLE.match(line) for line in text.splitlines() if not line.startswith("#"))
    return [(match[1], dict(LABEL.findall(match[2] or "")), float(match[3])) for match in found if match]


def total(samples: Samples, metric: str, labels: dict[str, str]) -> float:
    return sum(
        value
        for name, have, value in samples
        if name == metric and all(have.get(label) == wanted for label, wanted in labels.items())
    )


def pktgen_command(options: argparse.Namespace, profile: str, pcap: Path) -> list[str]:
    device = options.device or f"net_virtio_user0,path={options.vhost},queues=1,queue_size=1024"
    memory = [] if options.hugepages else ["--no-huge"]
    # The main lcore may not own a port: the second one does.
    return [
        str(options.pktgen.resolve()),
        "-l",
        options.lcores,
        "-n",
        "1",
        "-m",
        str(options.memory_mb),
        *memory,
        "--no-pci",
        "--no-telemetry",
        f"--file-prefix=pktgen{os.getpid()}",
        "--single-file-segments",
        f"--vdev={device}",
        "--",
        "-P",
        "-j",
        "-m",
        f"{options.lcores.replace('-', ',').split(',')[-1]}.0",
        "-s",
        f"0:{pcap}",
        "-f",
        str(HERE / f"{profile}.lua"),
    ]


def end(process: "subprocess.Popen[str]") -> None:
    """By its own process id: first asked, then told."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def play(options: argparse.Namespace, profile: str, expected: dict[str, Any]) -> None:
    settings = {"CAUSEWAY_LUA": str(HERE), "CAUSEWAY_FRAMES": str(expected["frames"])}
    for name, value in (
        ("CAUSEWAY_RATES", options.rates),
        ("CAUSEWAY_SECONDS", options.seconds),
        ("CAUSEWAY_PASSES", options.passes),
    ):
        if value is not None:
            settings[name] = str(value)
    command = pktgen_command(options, profile, options.pcap.resolve())
    limit = time.monotonic() + options.limit
    with open(options.log, "w", encoding="utf-8") as log:
        try:
            process = subprocess.Popen(
                command, env={**os.environ, **settings}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True
            )
        except OSError as error:
            raise Trouble(f"{options.pktgen}: {error.strerror}; deploy/pktgen/README.md tells how to get Pktgen") from None
        try:
            shown = 0
            while process.poll() is None and time.monotonic() < limit:
                time.sleep(0.2)
                shown = show(options.log, shown)
            show(options.log, shown)
            if process.poll() is None:
                raise Trouble(f"pktgen did not end within {options.limit} s; its output is in {options.log}")
        finally:
            end(process)
    if process.returncode != 0:
        raise Trouble(f"pktgen ended with status {process.returncode}; its output is in {options.log}")


def lines_of(log: Path) -> list[str]:
    """Of the profile; pktgen mixes control sequences of its screen into them."""
    return re.findall(r"causeway: [^\n\r\x1b]*", log.read_text(encoding="utf-8", errors="replace"))


def show(log: Path, shown: int) -> int:
    lines = lines_of(log)
    for line in lines[shown:]:
        print(line, flush=True)
    return len(lines)


def promised(expected: dict[str, Any], passes: int) -> Optional[list[dict[str, Any]]]:
    """The sum over the passes; None where later passes have no fixed one."""
    if passes > 1 and not expected["further_pass"]:
        return None
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for counts, times in ((expected["first_pass"], 1), (expected["further_pass"], passes - 1)):
        for count in counts:
            key = (count["metric"], json.dumps(count["labels"], sort_keys=True))
            entry = sums.setdefault(key, {**count, "add": 0})
            entry["add"] += times * count["add"]
    return list(sums.values())


def report(before: Samples, after: Samples, expected: dict[str, Any], passes: Optional[int]) -> bool:
    """Prints what moved; False when a promise was not kept."""
    wanted = promised(expected, passes) if passes else None
    counts = wanted if wanted is not None else expected["first_pass"]
    kept = True
    print(f"\n{'counter':<100} {'moved':>12}" + (f" {'promised':>12}" if wanted is not None else ""))
    for count in counts:
        moved = total(after, count["metric"], count["labels"]) - total(before, count["metric"], count["labels"])
        labels = ",".join(f'{name}="{value}"' for name, value in sorted(count["labels"].items()))
        line = f"{count['metric'] + '{' + labels + '}':<100} {moved:>12.0f}"
        if wanted is not None:
            same = moved == count["add"]
            kept = kept and same
            line += f" {count['add']:>12}" + ("" if same else "  differs")
        print(line)
    for metric in ("causeway_port_rx_missed_total", "causeway_port_rx_no_mbuf_total", "causeway_port_rx_errors_total"):
        moved = total(after, metric, {}) - total(before, metric, {})
        print(f"{metric:<100} {moved:>12.0f}")
    for remark in expected["remarks"]:
        print(f"note: {remark}")
    return kept


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pcap", type=Path, help="capture written by causeway-load pktgen; its .json lies beside it")
    parser.add_argument("--pktgen", type=Path, required=True, help="the program of Pktgen-DPDK 23.03.0, built with Lua")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--vhost", help="socket of causewayd's net_vhost port")
    where.add_argument("--device", help="another DPDK device for Pktgen, with its arguments")
    parser.add_argument("--rates", help="steps in percent, joined by ','; default: the profile's")
    parser.add_argument("--seconds", type=int, help="length of each step; default: the profile's")
    parser.add_argument(
        "--passes", type=int, help="instead of steps, so many passes over the capture; then counters are compared; 0 = steps"
    )
    parser.add_argument(
        "--lcores", default="0,1", help="two CPUs: the first for Pktgen's display and Lua, the second sends (default: 0,1)"
    )
    parser.add_argument("--memory-mb", type=int, default=2000, help="memory for Pktgen; a port takes about 1300 (default: 2000)")
    parser.add_argument("--hugepages", action="store_true", help="memory from hugepages")
    parser.add_argument(
        "--metrics", default="127.0.0.1:9464", help="causewayd's [metrics] listen, or 'off' (default: 127.0.0.1:9464)"
    )
    parser.add_argument("--log", type=Path, default=Path("pktgen.log"), help="what Pktgen prints (default: pktgen.log)")
    parser.add_argument("--limit", type=int, default=600, help="seconds after which Pktgen is ended (default: 600)")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    try:
        expected = read_expected(options.pcap)
        profile = expected["profile"]
        if not (HERE / f"{profile}.lua").exists():
            raise Trouble(f"{options.pcap}: there is no profile '{profile}' here")
        before = scrape(options.metrics) if options.metrics != "off" else []
        play(options, profile, expected)
        if options.metrics == "off":
            return 0
        time.sleep(1)  # what is still in causewayd's queue
        passes = options.passes if options.passes is not None else 1 if profile == "malformed" else None
        return 0 if report(before, scrape(options.metrics), expected, passes or None) else 1
    except Trouble as trouble:
        print(f"run.py: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 1


if __name__ == "__main__":
    sys.exit(main())
