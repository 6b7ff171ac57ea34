"""Whether an alert as shipped would fire, from two scrapes of a gateway: before the trouble and in it.

promtool plays the two scrapes against the shipped rules with a clock of its own: ten minutes as before, then half an hour of the
trouble. So an alert with `for: 10m` is judged in a second, by its own expression and its own windows.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Optional

import yaml

from harness import ROOT, Skip
from lab.daemon import LabError
from lab.metrics import Metrics
from prometheus_server import queries

INTERVAL_S = 15
BEFORE_STEPS = 40
AFTER_STEPS = 120
LABELS = {"job": "causeway", "instance": "drill:9464"}
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def _names_in(expr: str) -> set[str]:
    return set(re.findall(r"\b(?:causeway_\w+|process_\w+|instance\w*:[\w:]+)", expr))


def _metrics_of(alert: str) -> set[str]:
    """Names of the metrics that decide about an alert, through recorded ones."""
    recorded = {query.where: query.expr for query in queries.recording_rules()}
    found, todo = set[str](), _names_in(next(query.expr for query in queries.alert_rules() if query.where == alert))
    while todo:
        name = todo.pop()
        if name in recorded:
            todo |= _names_in(recorded[name]) - found
        found.add(name)
    return found


def _series(metrics: Metrics, names: set[str]) -> Series:
    return {(name, tuple(sorted(labels.items()))): value for name, labels, value in metrics.samples() if name in names}


def _values(before: Optional[float], after: Optional[float], per_step: float) -> str:
    first = f"_x{BEFORE_STEPS}" if before is None else f"{before!r}x{BEFORE_STEPS}"
    if after is None:
        return f"{first} _x{AFTER_STEPS}"
    # promtool's grammar wants the sign beside the number.
    return f"{first} {after!r}{per_step:+.17g}x{AFTER_STEPS}" if per_step else f"{first} {after!r}x{AFTER_STEPS}"


def _input(name: str, labels: dict[str, str], values: str) -> dict[str, str]:
    text = ", ".join(f'{key}="{value}"' for key, value in {**labels, **LABELS}.items())
    return {"series": f"{name}{{{text}}}", "values": values}


def expect_would_fire(
    directory: Path, alert: str, before: Metrics, after: Optional[Metrics], seconds: Optional[float] = None
) -> None:
    """after None: the gateway does not answer. Counters stay where the trouble left them: it happened once. With `seconds`, how long
    it lasted from scrape to scrape, they go on rising as they did: it lasts."""
    if shutil.which("promtool") is None:
        raise Skip("there is no promtool (package prometheus)")
    names = _metrics_of(alert)
    old, new = _series(before, names), _series(after, names) if after else {}
    counters = before.counters() | (after.counters() if after else set())
    inputs = [_input("up", {}, _values(1, 1 if after else 0, 0))]
    for name, labels in sorted(old.keys() | new.keys()):
        was, became = old.get((name, labels)), new.get((name, labels))
        slope = (became - was) / seconds * INTERVAL_S if seconds and name in counters and None not in (was, became) else 0.0
        inputs.append(_input(name, dict(labels), _values(was, became, slope)))
    quiet = f"{(BEFORE_STEPS - 1) * INTERVAL_S}s"
    end = f"{(BEFORE_STEPS + AFTER_STEPS - 1) * INTERVAL_S}s"
    fires = f'count(count_over_time(ALERTS{{alertname="{alert}",alertstate="firing"}}[1h]))'
    test: dict[str, Any] = {
        "rule_files": [str(queries.RULES), str(queries.ALERTS)],
        "evaluation_interval": f"{INTERVAL_S}s",
        "tests": [
            {
                "interval": f"{INTERVAL_S}s",
                "input_series": inputs,
                "promql_expr_test": [
                    {"expr": f"{fires} or vector(0)", "eval_time": quiet, "exp_samples": [{"labels": "{}", "value": 0}]},
                    {"expr": f"({fires} or vector(0)) > bool 0", "eval_time": end, "exp_samples": [{"labels": "{}", "value": 1}]},
                ],
            }
        ],
    }
    path = directory / f"{alert}.test.yml"
    path.write_text(yaml.safe_dump(test, width=1000))
    done = subprocess.run(
        ["promtool", "test", "rules", str(path)], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    if done.returncode != 0:
        raise LabError(f"{alert} would not fire, or fired before: {done.stdout}{done.stderr}")
