"""The real Prometheus with the configuration and the rules as shipped, on loopback.

What differs from the shipped files is said here and nowhere else: the targets, an interval of one second, and `for:`, which is cut to
two seconds so that a test need not wait for ten minutes. Expressions and their windows stay as they are.
"""

import json
import math
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Optional, Sequence

import yaml

from harness import ROOT, Box, Program, Skip, expect, free_tcp_address
from lab.daemon import LabError, wait_until

sys.path.insert(0, str(ROOT / "tests/monitoring"))

import queries  # noqa: E402

INTERVAL = "1s"
FOR = "2s"
# What Grafana puts in. A window of a minute holds all of a short run.
GRAFANA = {"$__rate_interval": "1m", "$__range": "1m", '"$job"': '".*"', '"$instance"': '".*"', '"$backend"': '".*"'}


def as_grafana_sends(expr: str) -> str:
    for variable, value in GRAFANA.items():
        expr = expr.replace(variable, value)
    return expr


class Prometheus(Program):
    address: str

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def api(self, path: str, **parameters: str) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return json.loads(response.read())["data"]
        except urllib.error.HTTPError as error:
            raise LabError(f"Prometheus refuses {parameters}: {json.loads(error.read()).get('error')}") from None

    def samples(self, expr: str, at: Optional[float] = None) -> list[tuple[dict[str, str], float]]:
        """Label sets and values now, or at a UNIX time. What is no number (a quantile of nothing, 0/0) does not count."""
        data = self.api("query", query=expr, **({} if at is None else {"time": f"{at:.3f}"}))
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        found = [(each["metric"], float(each["value"][1])) for each in data["result"]]
        return [(labels, value) for labels, value in found if math.isfinite(value)]

    def seen_alerts(self) -> set[tuple[str, str]]:
        """(alert, instance) of all that have been pending or firing since the start."""
        return {(labels["alertname"], labels.get("instance", "")) for labels, _ in self.samples("max_over_time(ALERTS[1h])")}

    def wait_for_alerts(self, instance: str, *names: str, timeout: float = 45) -> None:
        wanted = {(f"Causeway{name}", instance) for name in names}
        try:
            wait_until(lambda: wanted <= self.seen_alerts(), timeout, "", 0.5)
        except LabError:
            missing = sorted(name for name, _ in wanted - self.seen_alerts())
            raise LabError(f"not seen within {timeout:g} s: {', '.join(missing)}") from None

    def expect_healthy_rules(self) -> None:
        """Every rule was evaluated, and none with an error."""
        groups = self.api("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        bad = [f"{rule['name']}: {rule['health']} {rule.get('lastError', '')}" for rule in rules if rule["health"] != "ok"]
        expect(not bad, "\n".join(bad))
        expect(len(rules) == len(queries.recording_rules()) + len(queries.alert_rules()), f"{len(rules)} rules are loaded")


def _rules_with_short_waits(text: str) -> str:
    content = yaml.safe_load(text)
    for group in content["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = FOR
    return yaml.safe_dump(content)


def start_prometheus(box: Box, targets: Sequence[str], **scrape: Any) -> Prometheus:
    """`scrape`: what a job of its scrape configuration has besides."""
    if shutil.which("prometheus") is None:
        raise Skip("there is no prometheus (package prometheus)")
    directory = box.directory / "prometheus"
    assets = directory / "user/causeway"
    assets.mkdir(parents=True)
    shutil.copy(queries.RUNBOOK, assets)
    for path in (queries.RULES, queries.ALERTS):
        (directory / path.name).write_text(_rules_with_short_waits(path.read_text(encoding="utf-8")))
    config = yaml.safe_load(queries.SCRAPE_CONFIG.read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
    for job in config["scrape_configs"]:
        job["scrape_timeout"] = INTERVAL
        job.update(scrape, static_configs=[{"targets": list(targets)}])
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = free_tcp_address()
    argv = [
        "prometheus",
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address={address}",
        f"--web.external-url=http://{address}",
        f"--web.user-assets={directory}/user",
        "--log.level=warn",
    ]
    server = Prometheus("prometheus", argv, box.directory / "prometheus.log", box.env)
    server.address = address
    box.programs.append(server)
    server.start()

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"{server.url}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    server.wait_for(ready, 30, "ready")
    # Counters have to be seen before they rise. The first scrape comes seconds after the start.
    server.wait_for(lambda: len(server.samples("up")) == len(targets), 30, "a scrape")
    return server
