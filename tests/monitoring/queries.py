"""Everything in deploy/monitoring that is evaluated by Prometheus, read from the files as shipped."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import yaml

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy/monitoring"
RULES = MONITORING / "prometheus/causeway.rules.yml"
ALERTS = MONITORING / "prometheus/causeway.alerts.yml"
SCRAPE_CONFIG = MONITORING / "prometheus/prometheus.yml"
RUNBOOK = MONITORING / "RUNBOOK.md"
TESTS = ROOT / "tests/monitoring"


@dataclass(frozen=True)
class Query:
    where: str  # for messages
    expr: str


def rules_of(path: Path) -> list[dict[str, Any]]:
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def recording_rules() -> list[Query]:
    return [Query(rule["record"], rule["expr"]) for rule in rules_of(RULES)]


def alert_rules() -> list[Query]:
    return [Query(rule["alert"], rule["expr"]) for rule in rules_of(ALERTS)]


def dashboards() -> dict[str, dict[str, Any]]:
    """By file name."""
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted((MONITORING / "grafana").glob("*.json"))}


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


def panel_queries() -> list[Query]:
    return [
        Query(f"{name}: {panel['title']!r} {target['refId']}", target["expr"])
        for name, board in dashboards().items()
        for panel in panels(board)
        for target in panel.get("targets", [])
    ]


def annotation_queries() -> list[Query]:
    return [
        Query(f"{name}: annotation {listed['name']!r}", listed["target"]["expr"])
        for name, board in dashboards().items()
        for listed in board["annotations"]["list"]
    ]


@dataclass(frozen=True)
class LabelQuery:
    """label_values(selector, label): what a dashboard offers for a variable."""

    where: str
    selector: str
    label: str


def variable_queries() -> list[LabelQuery]:
    found = []
    for name, board in dashboards().items():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                selector, label = variable["definition"].removeprefix("label_values(").removesuffix(")").rsplit(",", 1)
                found.append(LabelQuery(f"{name}: variable {variable['name']!r}", selector, label.strip()))
    return found
