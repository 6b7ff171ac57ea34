"""What deploy/ ships beside the programs: the container's entrypoint against the templates of the Kubernetes variants."""

import os
import re
import subprocess
from pathlib import Path
from typing import Optional

from harness import CPUS, ROOT, Box, Skip, expect, expect_equal

ENTRYPOINT = ROOT / "deploy/container/entrypoint.sh"
KUBERNETES = ROOT / "deploy/kubernetes"
IWARP_ALONE = ROOT / "deploy/config/iwarp-alone.toml"


def _enter(box: Box, variant: str, template: Optional[Path] = None, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Runs the entrypoint as a pod of node-b would, up to a check of the configuration that it wrote."""
    own = dict(
        box.env,
        CAUSEWAYD=str(box.causewayd),
        CAUSEWAY_TEMPLATE=str(template or KUBERNETES / variant / "causeway.toml.in"),
        CAUSEWAY_NODES=str(KUBERNETES / "base/nodes"),
        CAUSEWAY_CONFIG=str(_config(box)),
        NODE_NAME="node-b",
    )
    own.update(environment)
    return subprocess.run([str(ENTRYPOINT), "--check-config"], capture_output=True, text=True, timeout=20, env=own, check=False)


def _config(box: Box) -> Path:
    return box.directory / "causeway.toml"


def _fills_in(box: Box, variant: str, words: tuple[str, ...], **environment: str) -> None:
    done = _enter(box, variant, **environment)
    expect_equal(f"exit status, with {done.stderr!r}", done.returncode, 0)
    expect("fine" in done.stdout, done.stdout)
    text = _config(box).read_text()
    poll = CPUS[min(1, len(CPUS) - 1)]
    for word in (f"poll_lcores = [{poll}]\n", *words):
        expect(word in text, f"no {word!r} in\n{text}")


def sr_iov(box: Box) -> None:
    _fills_in(
        box,
        "sr-iov",
        (f"main_lcore = {CPUS[0]}\n", 'device = "0000:3b:02.1"', "hugepages = true", '"192.0.2.12/24"'),
        PCIDEVICE_INTEL_COM_CAUSEWAY_VF="0000:3b:02.1,0000:3b:02.2",
        PCIDEVICE_INTEL_COM_CAUSEWAY_VF_INFO='{"x": 1}',
    )


def af_xdp(box: Box) -> None:
    _fills_in(box, "af-xdp", (f"main_lcore = {CPUS[0]}\n", 'device = "net_af_xdp0,', "beside_kernel = true"))


def iwarp(box: Box) -> None:
    _fills_in(box, "iwarp", ('transport = "iwarp"', "port = 20049"))
    expect("[[port]]" not in _config(box).read_text(), "a gateway of iWARP alone has no port")


def takes_a_file_without_blanks(box: Box) -> None:
    done = _enter(box, "", template=IWARP_ALONE)
    expect(done.returncode == 0 and "fine" in done.stdout, f"{done.stdout}{done.stderr}")
    expect_equal("what it wrote", _config(box).read_text(), IWARP_ALONE.read_text())


def takes_a_plain_file(box: Box) -> None:
    """Without a template, as with `podman run -v ./causeway.toml:/etc/causeway/causeway.toml`."""
    own = dict(box.env, CAUSEWAYD=str(box.causewayd), CAUSEWAY_FILE=str(IWARP_ALONE))
    own.pop("CAUSEWAY_TEMPLATE", None)
    done = subprocess.run([str(ENTRYPOINT), "--check-config"], capture_output=True, text=True, timeout=20, env=own, check=False)
    expect_equal("what it said", (done.returncode, done.stdout), (0, f"{IWARP_ALONE}: fine\n"))
    own["CAUSEWAY_FILE"] = "/nowhere"
    done = subprocess.run([str(ENTRYPOINT)], capture_output=True, text=True, timeout=20, env=own, check=False)
    expect(done.returncode == 1 and "/nowhere" in done.stderr and "causeway.toml.in" in done.stderr, done.stderr)


def capabilities_reach_the_program(box: Box) -> None:
    """As a container runtime starts it: the added capabilities are in all sets but the ambient one, and a change of user empties the
    effective set. So what a variant adds is of use only to user 0, or to a program with file capabilities, which the package has not.
    """
    if os.geteuid() != 0:
        raise Skip("not root: cannot set the user and capabilities of a container")
    for variant in ("sr-iov", "af-xdp", "iwarp"):
        text = (KUBERNETES / variant / "daemonset.yaml").read_text()
        user = re.search(r"runAsUser: (\d+)", text)
        expect(user is not None, f"{variant} does not say its user")
        added = re.findall(r'"([A-Z_]+)"', "".join(re.findall(r"add: \[(.*)\]", text)))
        wanted = ",".join(["-all", *(f"+{name.lower()}" for name in added)])
        done = box.run(
            "setpriv",
            f"--reuid={user.group(1)}",  # type: ignore[union-attr]
            f"--regid={user.group(1)}",  # type: ignore[union-attr]
            "--clear-groups",
            f"--bounding-set={wanted}",
            f"--inh-caps={wanted}",
            "--no-new-privs",
            "sh",
            "-c",
            "grep CapEff /proc/self/status",
        )
        expect_equal(f"{variant}: exit status, with {done.stderr!r}", done.returncode, 0)
        expect_equal(f"{variant}: capabilities that reach causewayd", bin(int(done.stdout.split()[1], 16)).count("1"), len(added))


def says_what_is_missing(box: Box) -> None:
    for variant, environment, word in (
        ("sr-iov", {}, "PCIDEVICE_"),
        ("sr-iov", {"NODE_NAME": "node-z"}, "node-z"),
        ("sr-iov", {"NODE_NAME": ""}, "downward API"),
        ("sr-iov", {"CAUSEWAY_NODES": "/nowhere"}, "/nowhere"),
        ("af-xdp", {"CAUSEWAY_TEMPLATE": "/nowhere"}, "/nowhere"),
    ):
        done = _enter(box, variant, **environment)
        expect_equal("exit status", done.returncode, 1)
        expect(done.stderr.startswith("causeway-entrypoint: ") and word in done.stderr, f"{word}: {done.stderr!r}")
        expect(not _config(box).exists(), "it wrote a configuration all the same")


CASES = [
    ("the container's entrypoint fills in the SR-IOV template", sr_iov),
    ("the container's entrypoint fills in the AF_XDP template", af_xdp),
    ("the container's entrypoint fills in the iWARP template", iwarp),
    ("the container's entrypoint takes the example of iWARP alone as it is", takes_a_file_without_blanks),
    ("the container's entrypoint takes a file without a template", takes_a_plain_file),
    ("capabilities of the Kubernetes variants reach the program", capabilities_reach_the_program),
    ("the container's entrypoint says what is missing", says_what_is_missing),
]
