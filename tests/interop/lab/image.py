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


def build() -> None:
    script = Path(__file__).resolve().parent.parent / "image/build.sh"
    result = subprocess.run([str(script)], timeout=600, check=False)
    if result.returncode != 0:
        raise LabError("the guest image could not be built")
