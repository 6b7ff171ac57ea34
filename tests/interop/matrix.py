#!/usr/bin/env python3
"""MATRIX.md, the table of who was tried with whom, and its short form in docs/supported.md, made of matrix.json, the results of the last
runs of every case.

    ./run.py --full                                     # writes results.json beside its logs
    ./matrix.py --take build/interop-logs/results.json  # puts them into matrix.json, in the place of older ones, and makes both pages
    ./matrix.py                                         # makes both pages anew
    ./matrix.py --check                                 # whether both pages are what matrix.json says

It says at which commit each result was found, and which cases were never run: the suite itself tells what cases there are. Cases that
have been renamed or removed are thrown out with --drop NAME (part of a name).
"""

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, Optional

from made_pages import Kept, between_marks, run

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from lab import cases as lab_cases, nfs_client, peers  # noqa: E402

PROGRAM = "matrix.py"

COLUMNS = [(version, ip) for version in ("3", "4.0", "4.1", "4.2") for ip in ("IPv4", "IPv6")]
OF_NFS = re.compile(r"nfs(?P<version>3|4\.[012])(?P<v6>v6)?(?:-|$)")
OF_STALL = re.compile(r"stall-")  # about the gateway's absence; the figures are those of stalls.py

UNRECORDED = "not recorded"  # the commit of results that are older than the record

# By kind of wire and backend: client, server. A client called Linux has the series of its kernel behind it.
SIDES = {
    ("gateway", "ganesha"): ("Linux", "Causeway, Ganesha over TCP"),
    ("gateway", "knfsd"): ("Linux", "Causeway, knfsd over TCP"),
    ("reference", "ganesha"): ("Linux", "knfsd's NFS/RDMA"),
    ("direct", "ganesha"): ("Linux", "Ganesha over TCP, no Causeway"),
    ("nfs-client", "svcrdma"): ("Causeway", "knfsd's NFS/RDMA"),
    ("nfs-client", "ganesha"): ("Causeway", "Causeway, Ganesha over TCP"),
    ("nfs-client", "knfsd"): ("Causeway", "Causeway, knfsd over TCP"),
}


def place_of(case: dict[str, Any]) -> Optional[tuple[tuple[str, str, str, int], tuple[str, str]]]:
    """The case's row and column; None for one that is not about a version of NFS."""
    sides = SIDES.get((case["kind"], case["backend"]))
    match = OF_NFS.search(case["case"])
    if sides is None or match is None or OF_STALL.match(case["case"]):
        return None
    client = f"Linux {series_of(case)}" if sides[0] == "Linux" else sides[0]
    wire = {"vhost": "vhost-user"}.get(case["transport"], case["transport"])
    return (client, sides[1], wire, case["roce_mtu"]), (match["version"], "IPv6" if match["v6"] else "IPv4")


def series_of(case: dict[str, Any]) -> str:
    """6.1 of 6.1.0-56-amd64"""
    return ".".join(case["versions"]["linux"].split(".")[:2])


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Linux first, the older kernel before the newer one; the larger MTU first."""
    client, server, *rest = row
    series = [int(part) for part in client.partition(" ")[2].split(".") if part.isdigit()]
    return (not client.startswith("Linux"), series, server, *(-part if isinstance(part, int) else part for part in rest))


def names_of_cases() -> list[str]:
    """Of all cases that try Causeway."""
    return [case.name for case in lab_cases.gateway_cases() + nfs_client.nfs_client_cases() + peers.peer_cases()]


def cell(cases: list[dict[str, Any]]) -> str:
    passed = sum(case["ok"] for case in cases)
    if not cases:
        return ""
    return f"{passed}" if passed == len(cases) else f"**{passed} of {len(cases)}**"


def table(cases: list[dict[str, Any]]) -> str:
    rows: dict[tuple[str, str, str, int], dict[tuple[str, str], list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    others: list[dict[str, Any]] = []
    for case in cases:
        place = place_of(case)
        if place is None:
            others.append(case)
        else:
            rows[place[0]][place[1]].append(case)
    lines = [
        "# Who was tried with whom",
        "",
        "Made by `matrix.py` from `matrix.json`: do not edit. A number is that of the cases which passed, all of them unless",
        "written out; an empty field was not tried. What a case does: `README.md`; its name, time, commit and reason: `matrix.json`.",
        "",
    ]
    head = ["client", "server", "wire", "RoCE MTU", *(f"{version} {ip}" for version, ip in COLUMNS)]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in sorted(rows, key=_order):
        client, server, wire, mtu = row
        fields = [client, server, wire, str(mtu) if mtu else "-", *(cell(rows[row].get(column, [])) for column in COLUMNS)]
        lines.append("| " + " | ".join(fields) + " |")
    if others:
        peers = [case for case in others if case["kind"] == "peers"]
        stalls = [case for case in others if OF_STALL.match(case["case"])]
        rest = [case for case in others if case not in peers and case not in stalls]
        lines += [
            "",
            f"Besides: rping and perftest, {cell(peers) or 'none'}; wiring, metrics, connections and callbacks, "
            f"{cell(rest) or 'none'}; a gateway that goes while a client writes, {cell(stalls) or 'none'}.",
        ]
    failed = sorted((case for case in cases if not case["ok"]), key=lambda case: case["case"])
    if failed:
        lines += ["", "## Failed", ""] + [f"- `{case['case']}`, {case['date']}: {_one_line(case['reason'])}" for case in failed]
    lines += ["", "## Commits", "", "| commit | cases | dates |", "|---|---|---|"]
    by_commit: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        by_commit[case.get("commit", UNRECORDED)].append(case["date"])
    for commit in sorted(by_commit, key=lambda commit: (commit == UNRECORDED, max(by_commit[commit]), commit)):
        found = by_commit[commit]
        lines.append(f"| {commit} | {len(found)} | {' to '.join(sorted({min(found), max(found)}))} |")
    known = {case["case"] for case in cases}
    names = names_of_cases()
    never = [name for name in names if name not in known]
    lines += ["", "## Never run", "", f"{len(never)} of {len(names)} cases." if never else f"None of {len(names)} cases."]
    lines += [""] * bool(never) + [f"- `{name}`" for name in never]
    dates = sorted(case["date"] for case in cases)
    linux = sorted({case["versions"]["linux"] for case in cases})
    ganesha = sorted({case["versions"]["ganesha"] for case in cases})
    if dates:
        lines += ["", f"{len(cases)} cases, {dates[0]} to {dates[-1]}. Linux {', '.join(linux)}; Ganesha {', '.join(ganesha)}."]
    return "\n".join(lines) + "\n"


def short_table(cases: list[dict[str, Any]]) -> str:
    """A line for each pair of client and server, whatever the wire, MTU and IP version."""
    versions = sorted({version for version, _ in COLUMNS})
    rows: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for case in cases:
        place = place_of(case)
        if place is not None:
            rows[place[0][:2]][place[1][0]].append(case)
    lines = [
        "| client | server | " + " | ".join(f"NFS {version}" for version in versions) + " |",
        "|" + "---|" * (2 + len(versions)),
    ]
    for client, server in sorted(rows, key=_order):
        cells = [cell(rows[client, server].get(version, [])) for version in versions]
        lines.append("| " + " | ".join([client, server, *cells]) + " |")
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


KEPT = Kept(
    program=PROGRAM,
    results=HERE / "matrix.json",
    under="cases",
    key=lambda case: (case["kind"], case["case"]),  # the kind of wire and the name: --reference has names of its own
    name=lambda case: case["case"],
    pages={
        HERE / "MATRIX.md": lambda _, cases: table(cases),
        HERE.parents[1] / "docs/supported.md": lambda page, cases: between_marks(page, PROGRAM, short_table(cases)),
    },
)

if __name__ == "__main__":
    sys.exit(run(KEPT, __doc__))
