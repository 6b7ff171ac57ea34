#!/usr/bin/env python3
"""Checks the files of deploy/ that nothing here can run: deploy.py ROOT. Exit status 77 without python3-yaml.

Kubernetes: every manifest parses, each variant is put together as kustomize would (resources, config map files, patches by strategic
merge), and what refers to something finds it: selectors, ports of probes, volumes, config maps, paths that the gateway serves, the
name of the job that alerts ask for. With kubectl, kustomize itself puts the variants together too, and has to come to the same. That
the objects are what the API takes, tests/ops/kubernetes_cases.py checks.
systemd: the unit and each of its drop-ins parse, and the unit's exposure stays below a bound (with systemd-analyze).
"""
import json
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
OPERATOR = "prometheus-operator"
OF_THE_OPERATOR = "monitoring.coreos.com/v1"
API_VERSIONS = {"DaemonSet": "apps/v1", "Namespace": "v1", "PriorityClass": "scheduling.k8s.io/v1", "Service": "v1"}
SHUTDOWN_S = 5  # that the gateway takes to disconnect its clients
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


def check_life(name: str, objects: list[dict[str, Any]], pod: dict[str, Any]) -> None:
    """A pod drains before it stops, has the time for it, and comes before others on nodes that are kept for it."""
    words = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    must(words[:4] == ["/usr/bin/causewayctl", "drain", "start", "--wait"], f"{name}: stops without a drain: {words}")
    drain_s = int(words[words.index("--timeout") + 1])
    grace_s = pod["terminationGracePeriodSeconds"]
    must(grace_s >= drain_s + 2 * SHUTDOWN_S, f"{name}: killed after {grace_s} s, which a drain of {drain_s} s does not fit into")
    must(pod["priorityClassName"] == of_kind(objects, "PriorityClass")["metadata"]["name"], f"{name}: no such priority class")
    taints = {toleration["key"] for toleration in pod["tolerations"]}
    must(taints <= set(pod["nodeSelector"]), f"{name}: tolerates {taints}, and runs where {pod['nodeSelector']} stands")


def rendered(folder: Path) -> list[dict[str, Any]]:
    """What kustomize makes of a folder."""
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    must(done.returncode == 0, f"kubectl kustomize {folder}: {done.stderr.strip()}")
    return [document for document in yaml.safe_load_all(done.stdout) if document is not None]


def in_order(value: Any) -> Any:
    """Lists of mappings sorted, since the order of containers' volumes and ports says nothing; names of config maps without hash."""
    if isinstance(value, dict):
        return {name: in_order(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return (
            sorted((in_order(inner) for inner in value), key=lambda inner: json.dumps(inner, sort_keys=True))
            if all(isinstance(i, dict) for i in value)
            else value
        )
    return re.sub(r"^causeway-[0-9a-z]{10}$", "causeway", value) if isinstance(value, str) else value


def check_kustomize(folder: Path, objects: list[dict[str, Any]]) -> None:
    theirs = {o["kind"]: o for o in rendered(folder)}
    for ours in objects:
        must(ours["kind"] in theirs, f"{folder}: kustomize makes no {ours['kind']}")
        for part in ("spec", "value"):
            have, want = in_order(theirs[ours["kind"]].get(part)), in_order(ours.get(part))
            must(have == want, f"{folder}: kustomize comes to another {ours['kind']}: {have}, not {want}")


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


def check_operator(root: Path, objects: list[dict[str, Any]]) -> None:
    for o in objects:
        must(o["apiVersion"] == OF_THE_OPERATOR and o["kind"] in ("PodMonitor", "PrometheusRule"), f"{OPERATOR}: {o['kind']}")
    monitoring = root / "deploy/monitoring"
    done = subprocess.run([sys.executable, str(monitoring / "prometheus_rule.py"), "--check"], check=False)
    must(done.returncode == 0, "prometheusrule.yaml is not of today's rules: run deploy/monitoring/prometheus_rule.py")
    groups = []
    for name in ("causeway.rules.yml", "causeway.alerts.yml"):
        groups += load(monitoring / "prometheus" / name)["groups"]
    must(of_kind(objects, "PrometheusRule")["spec"]["groups"] == groups, "prometheusrule.yaml has other groups than the rules")
    jobs = set(re.findall(r'job="([^"]+)"', str(groups)))
    endpoints = of_kind(objects, "PodMonitor")["spec"]["podMetricsEndpoints"]
    for endpoint in endpoints:
        named = {r.get("replacement") for r in endpoint["relabelings"] if r["targetLabel"] == "job"}
        must(named == jobs, f"alerts ask for job {jobs}, and the PodMonitor makes it {named or 'NAMESPACE/NAME'}")


def check_context(root: Path) -> Iterator[str]:
    """What git does not keep is no part of an image's build either."""
    kept_out = (root / ".dockerignore").read_text(encoding="utf-8").split("\n")
    must("build*" in kept_out and "**/__pycache__" in kept_out, ".dockerignore lets build folders into the context")
    must(
        not any(line.startswith(".git") for line in kept_out),
        ".dockerignore keeps .git out, which packages take their revision from",
    )
    yield "container: the context is the tree without what is built"


def check_kubernetes(root: Path) -> Iterator[str]:
    kubernetes = root / "deploy/kubernetes"
    unknown = {path.name for path in kubernetes.iterdir() if path.is_dir()} - {"base", OPERATOR, *VARIANTS}
    must(not unknown, f"nobody checks {unknown}")
    has_kubectl = shutil.which("kubectl") is not None
    of_operator, _ = put_together(kubernetes / OPERATOR)
    check_operator(root, of_operator)
    if has_kubectl:
        check_kustomize(kubernetes / OPERATOR, of_operator)
    yield f"kubernetes: the rules of the Prometheus operator are those of deploy/monitoring{'' if has_kubectl else '; no kubectl'}"
    for variant in VARIANTS:
        objects, maps = put_together(kubernetes / variant)
        for o in objects:
            must(
                o["apiVersion"] == API_VERSIONS.get(o["kind"]), f"{variant}: {o['kind']} of {o['apiVersion']}, which not all have"
            )
        daemon_set, monitor = of_kind(objects, "DaemonSet"), of_kind(of_operator, "PodMonitor")
        check_pod(variant, daemon_set, maps, served_paths(root))
        check_life(variant, objects, daemon_set["spec"]["template"]["spec"])
        if has_kubectl:
            check_kustomize(kubernetes / variant, objects)
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
        for line in (*check_kubernetes(root), *check_context(root), *check_systemd(root)):
            print(line)
    except (Problem, KeyError, yaml.YAMLError) as problem:
        print(f"{type(problem).__name__}: {problem}")
        return 1
    return 0


sys.exit(main())
