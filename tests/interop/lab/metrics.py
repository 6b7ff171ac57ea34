"""Prometheus text of causewayd: scraped, parsed, looked up, linted."""

import re
import shutil
import subprocess
import urllib.request
from typing import Mapping

from lab.daemon import LabError

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)(?: \d+)?$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Metrics:
    def __init__(self, text: str) -> None:
        self.text = text
        self._samples: list[tuple[str, dict[str, str], float]] = []
        self._kinds: list[tuple[str, str]] = []
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                self._kinds.append((line.split()[2], line.split()[3]))
            if not line or line.startswith("#"):
                continue
            match = _SAMPLE.match(line)
            if match is None:
                raise LabError(f"metrics: not a sample: {line!r}")
            self._samples.append((match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))

    def total(self, name: str, **labels: str) -> float:
        """Sum of the samples of this name whose labels include those given; a name that is absent is an error."""
        named = [(have, value) for sample, have, value in self._samples if sample == name]
        if not named:
            raise LabError(f"metrics: no {name}")
        return sum(value for have, value in named if _includes(have, labels))

    def by_label(self, name: str, label: str) -> dict[str, float]:
        result: dict[str, float] = {}
        for sample, have, value in self._samples:
            if sample == name:
                result[have.get(label, "")] = result.get(have.get(label, ""), 0) + value
        return result

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        """Name, labels and value of each."""
        return self._samples

    def counters(self) -> set[str]:
        """Names of samples that only rise."""
        named = {name for name, kind in self._kinds if kind == "counter"}
        return named | {name + end for name, kind in self._kinds if kind == "histogram" for end in ("_bucket", "_count", "_sum")}

    def lint(self) -> None:
        if shutil.which("promtool") is None:
            raise LabError("promtool not found (package prometheus)")
        result = subprocess.run(
            ["promtool", "check", "metrics"], input=self.text.encode(), capture_output=True, timeout=30, check=False
        )
        said = (result.stdout + result.stderr).decode().strip()
        if result.returncode != 0 or said:
            raise LabError(f"promtool check metrics: {said}")


def scrape(address: str, timeout: float = 15) -> Metrics:
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=timeout) as response:
            return Metrics(response.read().decode())
    except OSError as error:
        raise LabError(f"metrics: {address}: {error}") from error


def _includes(have: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(have.get(label) == value for label, value in wanted.items())
