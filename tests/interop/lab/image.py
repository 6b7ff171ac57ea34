"""The guest images, one for each kernel: built once by image/build.sh, then taken from the cache."""

import os
import subprocess
from pathlib import Path
from typing import Iterable

from lab.daemon import LabError

CACHE = Path(os.environ.get("CAUSEWAY_CACHE", "/var/cache/causeway-tests"))
USUAL = "6.1"  # series of the kernel, Debian 12's own
NEWER = "6.12"  # which Debian 12 carries too
BUSYBOX = CACHE / "guest/busybox"
TESTPMD = CACHE / "testpmd/usr/bin/dpdk-testpmd"


def kernel(series: str) -> Path:
    return CACHE / "guest" / series / "vmlinuz"


def initrd(series: str) -> Path:
    return CACHE / "guest" / series / "initrd.gz"


def kernel_release(series: str = USUAL) -> str:
    """Of the guest's kernel, as its own image says."""
    with kernel(series).open("rb") as file:
        start = file.read(0x10000)
    # Boot protocol: at 0x20e the offset of the version text, counted from 0x200.
    text = int.from_bytes(start[0x20E:0x210], "little") + 0x200
    return start[text : start.index(b"\0", text)].decode("ascii", "replace").split()[0]


def build(series: Iterable[str] = (USUAL,)) -> None:
    script = Path(__file__).resolve().parent.parent / "image/build.sh"
    result = subprocess.run([str(script), *series], timeout=900, check=False)
    if result.returncode != 0:
        raise LabError("the guest images could not be built")
