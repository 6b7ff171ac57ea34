#!/usr/bin/env python3
"""Puts the recording rules and alerts of prometheus/ into one PrometheusRule, for the Prometheus operator.

  prometheus_rule.py          writes deploy/kubernetes/prometheus-operator/prometheusrule.yaml
  prometheus_rule.py --check  says whether it is what it would write; exit status 1: it is not
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = ("causeway.rules.yml", "causeway.alerts.yml")
RESULT = HERE.parent / "kubernetes/prometheus-operator/prometheusrule.yaml"
HEAD = """\
# The rules and alerts of deploy/monitoring/prometheus/, made of them by deploy/monitoring/prometheus_rule.py: change them there.
# Where the Prometheus takes rules by label, set it here (ruleSelector; often "release: NAME").
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: causeway
  labels:
    app.kubernetes.io/name: causeway
spec:
  groups:
"""


def groups_of(path: Path) -> str:
    """The groups of a rule file, two columns further in; lines of folded texts keep their place among each other."""
    _, _, groups = path.read_text(encoding="utf-8").partition("\ngroups:\n")
    return "".join(f"  {line}\n" if line else "\n" for line in groups.splitlines())


def main() -> int:
    text = HEAD + "".join(groups_of(HERE / "prometheus" / name) for name in SOURCES)
    if "--check" in sys.argv[1:]:
        return 0 if RESULT.is_file() and RESULT.read_text(encoding="utf-8") == text else 1
    RESULT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
