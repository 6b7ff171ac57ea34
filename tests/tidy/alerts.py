#!/usr/bin/env python3
"""Checks the rules of deploy/monitoring/prometheus: promtool accepts them and their tests pass; every alert is complete, has a test
in which it fires and one in which it is silent, and a paragraph in the runbook; every metric is one that causewayd exports.
Exit status 77 when promtool is not installed."""
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "monitoring"))

import queries  # noqa: E402
import yaml  # noqa: E402

SEVERITIES = ("critical", "warning", "info")
# Of Prometheus itself.
OTHER_METRICS = ("up", "ALERTS")
SUFFIXES = ("_bucket", "_count", "_sum")
GOLDEN = queries.ROOT / "tests/unit/telemetry/metrics.golden"
PROCESS_METRICS = queries.ROOT / "telemetry/process_metrics.cc"


def promtool(*words: object) -> list[str]:
    done = subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [f"promtool {words[0]} {words[1]}:\n{done.stdout}{done.stderr}"]


def exported_metrics() -> set[str]:
    families = dict(re.findall(r"^# TYPE (\S+) (\S+)$", GOLDEN.read_text(encoding="utf-8"), re.MULTILINE))
    names = {name for name, kind in families.items() if kind != "histogram"}
    names |= {name + suffix for name, kind in families.items() if kind == "histogram" for suffix in SUFFIXES}
    return names | set(re.findall(r'"(process_\w+)"', PROCESS_METRICS.read_text(encoding="utf-8")))


def used_metrics(expr: str) -> set[str]:
    """Names before a selector, a range or an operator: no function, label, string or keyword."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expr)
    bare = re.sub(r"\{[^}]*\}", "{}", bare)
    bare = re.sub(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    names = re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?!\s*\()\b", re.sub(r"\[[^\]]*\]", "", bare))
    return {name for name in names if name.startswith(("causeway_", "process_", "instance")) or name in OTHER_METRICS}


def check_metrics() -> list[str]:
    known = exported_metrics() | {query.where for query in queries.recording_rules()} | set(OTHER_METRICS)
    everything = queries.recording_rules() + queries.alert_rules() + queries.panel_queries() + queries.annotation_queries()
    problems = []
    for query in everything:
        used = used_metrics(query.expr)
        problems += [f"{query.where}: causewayd exports no {name}" for name in sorted(used - known)]
        if not used:
            problems.append(f"{query.where}: no metric found in {query.expr!r}")
    return problems


def runbook_paragraphs() -> dict[str, str]:
    """Heading to text."""
    parts = re.split(r"^## (.+)$", queries.RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def tested_alerts() -> tuple[set[str], set[str]]:
    """Those that a test sees firing, and those that one sees silent."""
    fires, silent = set(), set()
    for path in sorted(queries.TESTS.glob("*.test.yml")):
        for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            for case in test.get("alert_rule_test", []):
                (fires if case["exp_alerts"] else silent).add(case["alertname"])
    return fires, silent


def check_alert(rule: dict, paragraphs: dict[str, str]) -> list[str]:
    name = rule["alert"]
    problems = []
    if rule.get("labels", {}).get("severity") not in SEVERITIES:
        problems.append(f"{name}: severity is none of {', '.join(SEVERITIES)}")
    for annotation in ("summary", "description", "runbook_url"):
        if not rule.get("annotations", {}).get(annotation):
            problems.append(f"{name}: no {annotation}")
    if not rule["annotations"].get("runbook_url", "").endswith(f"/RUNBOOK.md#{name.lower()}"):
        problems.append(f"{name}: runbook_url does not end in RUNBOOK.md#{name.lower()}")
    paragraph = paragraphs.get(name, "").lower()
    for word in ("**confirm**", "**do**"):
        if word not in paragraph:
            problems.append(f"{name}: its paragraph in RUNBOOK.md has no {word}")
    return problems


def check_alerts() -> list[str]:
    rules = queries.rules_of(queries.ALERTS)
    names = {rule["alert"] for rule in rules}
    paragraphs = runbook_paragraphs()
    fires, silent = tested_alerts()
    problems = [problem for rule in rules for problem in check_alert(rule, paragraphs)]
    problems += [f"{name}: no test in which it fires" for name in sorted(names - fires)]
    problems += [f"{name}: no test in which it is silent" for name in sorted(names - silent)]
    problems += [f"RUNBOOK.md: no alert {heading}" for heading in paragraphs if heading not in names]
    text = queries.RUNBOOK.read_text(encoding="utf-8")
    anchors = {heading.lower() for heading in paragraphs}
    problems += [f"RUNBOOK.md: no paragraph #{anchor}" for anchor in re.findall(r"\]\(#([^)]+)\)", text) if anchor not in anchors]
    return problems


def main() -> int:
    if shutil.which("promtool") is None:
        print("promtool is not installed (package prometheus)")
        return 77
    problems = promtool("check", "config", queries.SCRAPE_CONFIG)
    problems += promtool("check", "rules", queries.RULES, queries.ALERTS)
    problems += promtool("test", "rules", *sorted(queries.TESTS.glob("*.test.yml")))
    problems += check_metrics() + check_alerts()
    print("\n".join(problems) if problems else f"{len(queries.alert_rules())} alerts are complete and tested")
    return 1 if problems else 0


sys.exit(main())
