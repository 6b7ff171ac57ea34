"""The manifests of deploy/kubernetes, as kustomize puts them together, against the schemas of the Kubernetes API."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Callable

from harness import ROOT, Box, Skip, expect, expect_equal

try:
    import yaml
except ImportError:  # Debian's python3-yaml; the case says so
    yaml = None

Object = dict[str, Any]

MANIFESTS = ROOT / "deploy/kubernetes"
VALIDATOR = ROOT / "tests/ops/kubernetes"


def _kustomizations() -> list[Path]:
    """All but the base, which is not to be applied by itself."""
    return sorted(path.parent for path in MANIFESTS.glob("*/kustomization.yaml") if path.parent.name != "base")


def _rendered(box: Box, folder: Path) -> list[Object]:
    done = box.run("kubectl", "kustomize", folder)
    expect(done.returncode == 0, f"kubectl kustomize {folder.name}: {done.stderr}")
    return [document for document in yaml.safe_load_all(done.stdout) if document is not None]


class Schemas:
    """The validators in the build directory, which npm fetches into it once."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._folder = box.build / "kubernetes-schemas"
        fetch = ROOT / "telemetry/page/fetch.py"
        files = (VALIDATOR / "package.json", VALIDATOR / "package-lock.json")
        done = box.run(sys.executable, fetch, "npm", *files, self._folder, timeout=200)
        expect(done.returncode == 0, f"npm cannot fetch the schemas: {done.stdout}{done.stderr}")
        shutil.copy(VALIDATOR / "validate.js", self._folder)

    def mistakes(self, objects: list[Object]) -> list[str]:
        file = self._box.directory / "objects.json"
        file.write_text(json.dumps(objects))
        done = self._box.run("node", self._folder / "validate.js", file)
        expect(done.returncode in (0, 1) and not done.stderr, f"validate.js: {done.stderr}")
        found = done.stdout.splitlines()
        expect_equal("exit status of validate.js", done.returncode, 1 if found else 0)
        return found


def _container(objects: list[Object]) -> Object:
    daemon_set = next(o for o in objects if o["kind"] == "DaemonSet")
    return daemon_set["spec"]["template"]["spec"]["containers"][0]


def _endpoint(objects: list[Object]) -> Object:
    return next(o for o in objects if o["kind"] == "PodMonitor")["spec"]["podMetricsEndpoints"][0]


def _misspell_a_probe(objects: list[Object]) -> None:
    container = _container(objects)
    container["readynessProbe"] = container.pop("readinessProbe")


def _misspell_a_protocol(objects: list[Object]) -> None:
    _container(objects)["ports"][0]["protocol"] = "TPC"


def _misspell_an_amount(objects: list[Object]) -> None:
    _container(objects)["resources"]["limits"]["memory"] = "1Gig"


def _forget_the_selector(objects: list[Object]) -> None:
    del next(o for o in objects if o["kind"] == "DaemonSet")["spec"]["selector"]


def _misspell_an_endpoint(objects: list[Object]) -> None:
    _endpoint(objects)["schema"] = "http"


def _misspell_an_interval(objects: list[Object]) -> None:
    _endpoint(objects)["interval"] = "15 seconds"


def _misspell_a_rule(objects: list[Object]) -> None:
    rule = next(o for o in objects if o["kind"] == "PrometheusRule")["spec"]["groups"][0]["rules"][0]
    rule["expression"] = rule.pop("expr")


# What has to be refused, and a word of the refusal.
MISTAKES: list[tuple[Callable[[list[Object]], None], str]] = [
    (_misspell_a_probe, "containers/0/readynessProbe: the API has no such field"),
    (_misspell_a_protocol, "ports/0/protocol: must be equal to one of the allowed values"),
    (_misspell_an_amount, 'limits/memory: must match format "quantity"'),
    (_forget_the_selector, "must have required property selector"),
    (_misspell_an_endpoint, "podMetricsEndpoints/0/schema: the API has no such field"),
    (_misspell_an_interval, "podMetricsEndpoints/0/interval: must match pattern"),
    (_misspell_a_rule, "rules/0/expression: the API has no such field"),
]


def manifests_fit_the_schemas(box: Box) -> None:
    if yaml is None:
        raise Skip("python3-yaml is not installed")
    for program in ("npm", "kubectl"):
        if shutil.which(program) is None:
            raise Skip(f"there is no {program}")
    schemas = Schemas(box)
    rendered = {folder.name: _rendered(box, folder) for folder in _kustomizations()}
    expect(len(rendered) >= 4, f"only {len(rendered)} kustomizations")
    for name, objects in rendered.items():
        expect_equal(f"mistakes in {name}", schemas.mistakes(objects), [])
    wrong = rendered["iwarp"] + rendered["prometheus-operator"]
    for make, _ in MISTAKES:
        make(wrong)
    found = "\n".join(schemas.mistakes(wrong))
    for make, word in MISTAKES:
        expect(word in found, f"{make.__name__[1:]}: nothing says {word!r}:\n{found}")


CASES = [("the Kubernetes manifests fit the schemas of the API, which refuse what is misspelled", manifests_fit_the_schemas)]
