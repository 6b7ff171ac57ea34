"""The guest image: built once by image/build.sh, then taken from the cache."""

import os
import subprocess
from pathlib import Path

from lab.daemon import LabError

CACHE = Path(os.environ.get("CAUSEWAY_CACHE", "/var/cache/causeway-tests"))
KERNEL = CACHE / "guest/vmlinuz"
INITRD = CACHE / "guest/initrd.gz"
BUSYBOX = CACHE / "guest/busybox"
TESTPMD = CACHE / "testpmd/usr/bin/dpdk-testpmd"


def kernel_release() -> str:
    """Of the guest's kernel, as its own image says."""
    with KERNEL.open("rb") as kernel:
        start = kernel.read(0x10000)
    # Boot protocol: at 0x20e the offset of the version text, counted from 0x200.
    text = int.from_bytes(start[0x20e:0x210], "little") + 0x200
    return start[text:start.index(b"\0", text)].decode("ascii", "replace").split()[0]


def build() -> None:
    script = Path(__file__).resolve().parent.parent / "image/build.sh"
    result = subprocess.run([str(script)], timeout=600, check=False)
    if result.returncode != 0:
        raise LabError("the guest image could not be built")
