#!/usr/bin/env python3
"""Checks what the compiler does not: who may include whom, and a few habits of the house.

Layers, left to right; a folder may include only itself and folders to its left:

    base < verbs < rocev2, iwarp, rnic, rpcrdma < control < gateway < telemetry < dataplane < apps < tests

Finer: rpcrdma, rocev2, iwarp and rnic do not see each other; within rocev2: wire < link, gsi, rc; requester and responder never
include each other; the gateway and the client role know no wire: only gateway/node, which is one, sees rocev2 and control/cm;
<rte_*> only in dataplane/ and tests that test it; rdma-core only in dataplane/rnic/; protocol folders make no system calls. The
pre-commit hook looks at the sources of these folders and no others. Usage: layers.py ROOT [FILE...]
"""
import re
import sys
from pathlib import Path

LAYERS = ["base", "verbs", "rocev2", "iwarp", "rnic", "rpcrdma", "control", "gateway", "telemetry", "dataplane", "apps", "tests"]
WITHIN_ROCEV2 = {"wire": 0, "link": 1, "gsi": 1, "rc": 1, "": 2}
PURE = ["base/", "verbs/", "rocev2/", "iwarp/", "rnic/", "rpcrdma/", "control/cm/", "gateway/"]
WIRES = ("gateway/node/",)  # each makes a wire a verbs::Transport
OF_WIRES = ("rocev2/", "iwarp/", "rnic/", "control/cm/")
WIRE_LAYERS = ("rocev2", "iwarp", "rnic")
RDMA_CORE = ("<infiniband/", "<rdma/")
SYSTEM_HEADERS = re.compile(
    r"<(sys/|unistd\.h|poll\.h|netinet/|arpa/|fcntl\.h|pthread\.h|thread|mutex|atomic|chrono|condition_variable|future|"
    r"iostream|fstream|filesystem|random|ctime|time\.h)"
)
# A BufferPool may be called by any thread (base/buffer.h); whoever uses one sees no thread.
SHARED_BY_THREADS = ("base/heap_buffer_pool.", "base/index_stack.h")
HOOK = ".githooks/pre-commit"
INCLUDE = re.compile(r'^\s*#include\s+(<[^>]+>|"[^"]+")')
COLUMNS = 130


def check_include(path: str, included: str) -> str | None:
    layer = path.split("/")[0]
    if included.startswith("<"):
        if included.startswith("<rte_") and layer not in ("dataplane", "apps", "tests"):
            return f"{included}: DPDK belongs in dataplane/"
        if included.startswith(RDMA_CORE) and not path.startswith(("dataplane/rnic/", "tests/")):
            return f"{included}: rdma-core belongs in dataplane/rnic/"
        if included == "<atomic>" and path.startswith(SHARED_BY_THREADS):
            return None
        if included == "<sys/sdt.h>" and path == "base/usdt.cc":
            return None  # marks places in the program, and calls nobody
        if any(path.startswith(pure) for pure in PURE) and SYSTEM_HEADERS.match(included):
            return f"{included}: protocol code makes no system calls, has no threads and reads no clock"
        return None
    target = included.strip('"')
    if "/" not in target or target.startswith("."):
        return f"{included}: include by the path from the root"
    target_layer = target.split("/")[0]
    if target_layer not in LAYERS:
        return f"{included}: unknown folder"
    if LAYERS.index(target_layer) > LAYERS.index(layer):
        return f"{included}: {layer} may not include {target_layer}"
    parts = target.split("/")
    if layer == "rpcrdma" and target_layer in WIRE_LAYERS:
        return f"{included}: rpcrdma knows no transport"
    if layer in WIRE_LAYERS and target_layer in WIRE_LAYERS and layer != target_layer:
        return f"{included}: one wire does not know the other"
    if layer == "gateway" and not path.startswith(WIRES) and target.startswith(OF_WIRES + WIRES):
        return f"{included}: the gateway and the client know verbs::Transport and no wire"
    if layer == "rocev2" and target_layer == "rocev2":
        own = path.split("/")[1] if path.count("/") > 1 else ""
        other = parts[1] if len(parts) > 2 else ""
        if WITHIN_ROCEV2[other] > WITHIN_ROCEV2[own]:
            return f"{included}: rocev2/{own} may not include rocev2/{other or '(top)'}"
        names = {Path(path).stem.split("_")[0], Path(target).stem.split("_")[0]}
        if names == {"requester", "responder"}:
            return f"{included}: requester and responder never include each other"
    return None


def check_file(root: Path, path: Path) -> list[str]:
    name = path.relative_to(root).as_posix()
    problems = []
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".h" and "#pragma once" not in text:
        problems.append(f"{name}:1: header without #pragma once")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS:
            problems.append(f"{name}:{number}: {len(line)} columns, at most {COLUMNS}")
        if re.search(r"\b(TODO|FIXME|XXX)\b(?!\()", line):
            problems.append(f"{name}:{number}: write TODO(issue) or nothing")
        found = INCLUDE.match(line)
        if found:
            problem = check_include(name, found.group(1))
            if problem:
                problems.append(f"{name}:{number}: {problem}")
    return problems


def check_hook(root: Path) -> list[str]:
    """The hook sorts staged files by folder, in a `case` of its own: a folder that is missing there is never looked at."""
    patterns = re.search(r"^ +((?:\w+/\* \| )+\w+/\*)\)$", (root / HOOK).read_text(encoding="utf-8"), re.MULTILINE)
    folders = re.findall(r"\w+", patterns[1]) if patterns else []
    return [] if folders == LAYERS else [f"{HOOK}: its folders are {', '.join(folders)}; here they are {', '.join(LAYERS)}"]


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    tree = (f for layer in LAYERS for f in sorted((root / layer).rglob("*")))
    files = [f for f in ([Path(name).resolve() for name in sys.argv[2:]] or tree) if f.suffix in (".h", ".cc")]
    problems = check_hook(root) + [problem for file in files for problem in check_file(root, file)]
    print("\n".join(problems) if problems else f"{len(files)} files keep to their layers")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
