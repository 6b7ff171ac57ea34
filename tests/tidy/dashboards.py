#!/usr/bin/env python3
"""Checks the dashboards of deploy/monitoring/grafana: they are what dashboards.py writes, every panel explains itself, has a unit and
legends and lies on the grid alone, every query is narrowed by the variables, and nothing names an address."""
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "monitoring"))

import queries  # noqa: E402

# Of Grafana's list (packages/grafana-data, valueFormats).
UNITS = {"none", "s", "bytes", "Bps", "pps", "ops", "cps", "reqps", "percentunit"}
KINDS = {"timeseries", "stat", "heatmap", "row"}
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|https?://")
COLUMNS = 24


def unit_of(panel: dict[str, Any]) -> str:
    if panel["type"] == "heatmap":
        return panel["options"]["yAxis"]["unit"]
    return panel["fieldConfig"]["defaults"].get("unit", "")


def check_target(target: dict[str, Any]) -> list[str]:
    problems = []
    if target.get("datasource") != DATASOURCE:
        problems.append("the data source is not the variable")
    if not target.get("legendFormat"):
        problems.append("no legend")
    expr = target["expr"]
    selectors = re.findall(r"\b(?:causeway_\w+|process_\w+|up)(\{[^}]*\})?", expr)
    if any('job=~"$job"' not in each or 'instance=~"$instance"' not in each for each in selectors):
        problems.append(f"not narrowed by job and instance: {expr}")
    if re.search(r"\[\d", expr):
        problems.append(f"a fixed window, where $__rate_interval follows the scrape interval: {expr}")
    for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
        if re.search(r"\bby \(", expr) and not re.search(rf"\bby \([^)]*\b{label}\b[^)]*\)", expr):
            problems.append(f"the legend names {label}, which the query sums away: {expr}")
    return problems


def check_panel(panel: dict[str, Any]) -> list[str]:
    if panel["type"] not in KINDS:
        return [f"unknown kind {panel['type']}"]
    if panel["type"] == "row":
        return []
    problems = []
    if panel.get("datasource") != DATASOURCE:
        problems.append("the data source is not the variable")
    if not panel.get("description", "").endswith("."):
        problems.append("no description, or not a sentence")
    if unit_of(panel) not in UNITS:
        problems.append(f"unit {unit_of(panel)!r} is not one of ours")
    if not panel.get("targets"):
        problems.append("no query")
    if len({target["refId"] for target in panel["targets"]}) != len(panel["targets"]):
        problems.append("two queries of one name")
    return problems + [problem for target in panel["targets"] for problem in check_target(target)]


def check_places(panels: list[dict[str, Any]]) -> list[str]:
    problems = []
    taken: dict[tuple[int, int], str] = {}
    for panel in panels:
        place = panel["gridPos"]
        if place["x"] < 0 or place["x"] + place["w"] > COLUMNS or place["w"] <= 0 or place["h"] <= 0:
            problems.append(f"{panel['title']}: off the grid")
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                if taken.setdefault((x, y), panel["title"]) != panel["title"]:
                    problems.append(f"{panel['title']} lies over {taken[(x, y)]}")
    return sorted(set(problems))


def check_dashboard(board: dict[str, Any]) -> list[str]:
    problems = []
    panels = list(queries.panels(board))
    if len({panel["id"] for panel in panels}) != len(panels):
        problems.append("two panels of one id")
    if board["uid"] is None or len(board["uid"]) > 40:
        problems.append("Grafana takes a uid of 1 to 40 characters")
    names = [variable["name"] for variable in board["templating"]["list"]]
    if names[:3] != ["datasource", "job", "instance"]:
        problems.append(f"variables are {names}, and should begin with datasource, job, instance")
    text = json.dumps(board)
    problems += [f"names an address: {found}" for found in ADDRESS.findall(text)]
    variables = set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval", "__range", "__all"}
    problems += [f"uses a variable that it does not have: {name}" for name in sorted(variables - set(names))]
    problems += check_places(panels)
    problems += [f"panel {panel['title']!r}: {problem}" for panel in panels for problem in check_panel(panel)]
    return problems


def main() -> int:
    generator = queries.MONITORING / "dashboards.py"
    done = subprocess.run([sys.executable, str(generator), "--check"], capture_output=True, text=True, check=False)
    problems = (done.stdout + done.stderr).splitlines() if done.returncode else []
    boards = queries.dashboards()
    problems += [f"{name}: {problem}" for name, board in boards.items() for problem in check_dashboard(board)]
    if len({board["uid"] for board in boards.values()}) != len(boards):
        problems.append("two dashboards of one uid")
    count = sum(1 for board in boards.values() for panel in queries.panels(board) if panel["type"] != "row")
    print("\n".join(problems) if problems else f"{len(boards)} dashboards with {count} panels are in order")
    return 1 if problems or not boards else 0


sys.exit(main())
