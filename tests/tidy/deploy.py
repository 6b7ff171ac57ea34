#!/usr/bin/env python3
"""Checks the files of deploy/ that nothing here can run: deploy.py ROOT. Exit status 77 without python3-yaml.

Kubernetes: every manifest parses, each variant is put together as kustomize would (resources, config map files, patches by strategic
merge), and what refers to something finds it: selectors, ports of probes, volumes, config maps, paths that the gateway serves. A
parser and these rules are all: there is no cluster and no schema.
systemd: the unit and each of its drop-ins parse, and the unit's exposure stays below a bound (with systemd-analyze).
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator

try:
    import yaml
except ImportError:
    print("python3-yaml is not installed")
    sys.exit(77)

# What a change may not go beyond without thinking; the README says how the figure comes about. 0 is best, 10 worst.
EXPOSURE_MAX = 1.5
VARIANTS = ("sr-iov", "af-xdp", "iwarp")
API_VERSIONS = {"DaemonSet": "apps/v1", "Namespace": "v1", "PodMonitor": "monitoring.coreos.com/v1", "Service": "v1"}
NAMED_LISTS = {"containers", "volumes", "env", "ports"}


class Problem(Exception):
    pass


def must(condition: bool, what: str) -> None:
    if not condition:
        raise Problem(what)


def load(path: Path) -> dict[str, Any]:
    documents = [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document is not None]
    must(len(documents) == 1 and isinstance(documents[0], dict), f"{path}: not one YAML mapping")
    return documents[0]


def merge(base: Any, patch: Any, key: str = "") -> Any:
    """Strategic merge: mappings by key, lists of named things by name, mounts by path, other lists replaced."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {
            name: merge(base[name], patch[name], name) if name in base and name in patch else base.get(name, patch.get(name))
            for name in [*base, *(name for name in patch if name not in base)]
        }
    if isinstance(base, list) and isinstance(patch, list) and (key in NAMED_LISTS or key == "volumeMounts"):
        by = "mountPath" if key == "volumeMounts" else "name"
        merged = {item[by]: item for item in base}
        for item in patch:
            merged[item[by]] = merge(merged[item[by]], item) if item[by] in merged else item
        return list(merged.values())
    return patch


def put_together(folder: Path) -> tuple[list[dict[str, Any]], dict[str, set[str]]]:
    """The objects of a kustomization, and the files of each config map."""
    used = {"kustomization.yaml"}
    settings = load(folder / "kustomization.yaml")
    objects: list[dict[str, Any]] = []
    maps: dict[str, set[str]] = {}
    for resource in settings.get("resources", []):
        path = folder / resource
        if path.is_dir():
            more, more_maps = put_together(path)
            objects += more
            maps.update(more_maps)
        else:
            used.add(resource)
            objects.append(load(path))
    for generator in settings.get("configMapGenerator", []):
        name = generator["name"]
        must(
            (generator.get("behavior") == "merge") == (name in maps),
            f"{folder}: config map {name} is merged into nothing, or made twice",
        )
        for file in generator["files"]:
            must((folder / file).is_file(), f"{folder}: there is no {file} for config map {name}")
            used.add(file)
            maps.setdefault(name, set()).add(file)
    for patch in settings.get("patches", []):
        used.add(patch["path"])
        change = load(folder / patch["path"])
        found = [o for o in objects if (o["kind"], o["metadata"]["name"]) == (change["kind"], change["metadata"]["name"])]
        must(len(found) == 1, f"{folder}/{patch['path']}: changes {len(found)} objects")
        objects[objects.index(found[0])] = merge(found[0], change)
    unused = {path.name for path in folder.iterdir()} - used
    must(not unused, f"{folder}: nothing refers to {', '.join(sorted(unused))}")
    return objects, maps


def served_paths(root: Path) -> set[str]:
    return set(re.findall(r'path == "(/[a-z]+)"', (root / "telemetry/http_request.cc").read_text(encoding="utf-8")))


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    found = [o for o in objects if o["kind"] == kind]
    must(len(found) == 1, f"{len(found)} objects of kind {kind}")
    return found[0]


def check_pod(name: str, daemon_set: dict[str, Any], maps: dict[str, set[str]], paths: set[str]) -> None:
    spec = daemon_set["spec"]
    labels = spec["template"]["metadata"]["labels"]
    must(spec["selector"]["matchLabels"].items() <= labels.items(), f"{name}: the selector does not select its own pods")
    pod = spec["template"]["spec"]
    must(len(pod["containers"]) == 1, f"{name}: {len(pod['containers'])} containers; did a patch miss its container?")
    container = pod["containers"][0]
    for key in ("image", "resources", "securityContext"):
        must(key in container, f"{name}: the container has no {key}")
    ports = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        get = container[probe]["httpGet"]
        must(get["port"] in ports, f"{name}: {probe} asks port {get['port']}, which is none")
        must(get["path"] in paths, f"{name}: {probe} asks {get['path']}, which causewayd does not serve")
    must(container["livenessProbe"]["httpGet"]["path"] == "/healthz", f"{name}: liveness is what a restart fixes: /healthz")
    must(container["readinessProbe"]["httpGet"]["path"] == "/readyz", f"{name}: readiness is /readyz")
    resources = container["resources"]
    must(resources["requests"] == resources["limits"], f"{name}: requests differ from limits, so there are no CPUs of its own")
    must(str(resources["limits"]["cpu"]).isdigit(), f"{name}: CPUs have to be whole")
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    must(set(mounts) == set(volumes), f"{name}: volumes {set(volumes)}, mounted {set(mounts)}")
    for volume in volumes.values():
        map_name = volume.get("configMap", {}).get("name")
        must(map_name is None or map_name in maps, f"{name}: there is no config map {map_name}")
        medium = str(volume.get("emptyDir", {}).get("medium", ""))
        size = medium.replace("HugePages-", "hugepages-")
        must(not medium.startswith("HugePages") or size in resources["limits"], f"{name}: {medium} without {size} in the limits")
    must("ALL" in container["securityContext"]["capabilities"]["drop"], f"{name}: keeps capabilities that it does not name")


def check_template(folder: Path, daemon_set: dict[str, Any]) -> None:
    text = (folder / "causeway.toml.in").read_text(encoding="utf-8")
    known = set(
        re.findall(r"^#\s+@([A-Z_]+)@", (folder.parents[1] / "container/entrypoint.sh").read_text(encoding="utf-8"), re.MULTILINE)
    )
    unknown = set(re.findall(r"@([A-Z_]+)@", text)) - known
    must(not unknown, f"{folder}: the entrypoint does not fill in {unknown}")
    port = {p["name"]: p["containerPort"] for p in daemon_set["spec"]["template"]["spec"]["containers"][0]["ports"]}["metrics"]
    must(f'listen = "0.0.0.0:{port}"' in text, f"{folder}: metrics do not listen on the port {port} that probes ask")


def check_iwarp(folder: Path, objects: list[dict[str, Any]]) -> None:
    """iWARP alone asks for no privilege, and its Service leads to the listener."""
    service, daemon_set = of_kind(objects, "Service"), of_kind(objects, "DaemonSet")
    pod = daemon_set["spec"]["template"]
    must(service["spec"]["selector"].items() <= pod["metadata"]["labels"].items(), f"{folder}: the Service selects other pods")
    container = pod["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"] if port["protocol"] == "TCP"}
    text = (folder / "causeway.toml.in").read_text(encoding="utf-8")
    for port in service["spec"]["ports"]:
        must(port["protocol"] == "TCP" and port["targetPort"] in ports, f"{folder}: the Service leads to {port['targetPort']}")
        must(f"port = {ports[port['targetPort']]}\n" in text, f"{folder}: no listener at the port of the Service")
    must("[[port]]" not in text, f"{folder}: iWARP alone has no [[port]]")
    security = container["securityContext"]
    must("add" not in security["capabilities"] and security["runAsNonRoot"] is True, f"{folder}: asks for more than it needs")
    must("hostNetwork" not in pod["spec"], f"{folder}: needs no network of the node")
    must(not any("hugepages" in str(volume).lower() for volume in pod["spec"]["volumes"]), f"{folder}: needs no hugepages")
    level = of_kind(objects, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    must(level == "restricted", f"{folder}: needs no more than restricted, and the namespace allows {level}")


def check_kubernetes(root: Path) -> Iterator[str]:
    kubernetes = root / "deploy/kubernetes"
    unknown = {path.name for path in kubernetes.iterdir() if path.is_dir()} - {"base", *VARIANTS}
    must(not unknown, f"nobody checks {unknown}")
    for variant in VARIANTS:
        objects, maps = put_together(kubernetes / variant)
        for o in objects:
            must(o["apiVersion"] == API_VERSIONS.get(o["kind"]), f"{variant}: {o['kind']} of {o['apiVersion']}")
        daemon_set, monitor = of_kind(objects, "DaemonSet"), of_kind(objects, "PodMonitor")
        check_pod(variant, daemon_set, maps, served_paths(root))
        check_template(kubernetes / variant, daemon_set)
        if variant == "iwarp":
            check_iwarp(kubernetes / variant, objects)
        labels = daemon_set["spec"]["template"]["metadata"]["labels"]
        must(
            monitor["spec"]["selector"]["matchLabels"].items() <= labels.items(), f"{variant}: the PodMonitor selects other pods"
        )
        ports = {port["name"] for port in daemon_set["spec"]["template"]["spec"]["containers"][0]["ports"]}
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            must(endpoint["port"] in ports, f"{variant}: the PodMonitor scrapes port {endpoint['port']}")
            must(endpoint["path"] in served_paths(root), f"{variant}: the PodMonitor scrapes {endpoint['path']}")
        yield f"kubernetes {variant}: {len(objects)} objects fit together"


def check_unit_file(path: Path) -> None:
    section = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if re.fullmatch(r"\[(Unit|Service|Install)\]", line):
            section = line
        else:
            must(bool(section) and re.fullmatch(r"[A-Za-z]+=(.*\S)?", line) is not None, f"{path}:{number}: {line!r}")
    must(section != "", f"{path}: no section")


def check_systemd(root: Path) -> Iterator[str]:
    systemd = root / "deploy/systemd"
    unit = systemd / "causewayd.service"
    drop_ins = sorted((systemd / "drop-ins").glob("*.conf"))
    for path in (unit, *drop_ins):
        check_unit_file(path)
    yield f"systemd: a unit and {len(drop_ins)} drop-ins parse"
    if shutil.which("systemd-analyze") is None:
        yield "systemd: there is no systemd-analyze, so the exposure is not measured"
        return
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / unit.name
        copy.write_text(unit.read_text(encoding="utf-8"), encoding="utf-8")
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--no-pager", str(copy)],
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    must(found is not None, f"systemd-analyze said {done.stdout[-200:]} {done.stderr[-200:]}")
    exposure = float(found.group(1))  # type: ignore[union-attr]
    must(exposure <= EXPOSURE_MAX, f"{unit}: exposure {exposure}, at most {EXPOSURE_MAX}")
    readme = (root / "deploy/README.md").read_text(encoding="utf-8")
    must(f"exposure {exposure}" in readme, f'deploy/README.md does not say "exposure {exposure}"')
    yield f"systemd: exposure {exposure}"


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    try:
        for line in (*check_kubernetes(root), *check_systemd(root)):
            print(line)
    except (Problem, KeyError, yaml.YAMLError) as problem:
        print(f"{type(problem).__name__}: {problem}")
        return 1
    return 0


sys.exit(main())
