"""What deploy/ ships beside the programs: the container's entrypoint against the templates of the Kubernetes variants."""

import subprocess
from pathlib import Path
from typing import Optional

from harness import CPUS, ROOT, Box, expect, expect_equal

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
    ("the container's entrypoint says what is missing", says_what_is_missing),
]
