"""Runs the program again inside private network, mount and process namespaces.

Nothing has to be cleaned up by name: addresses, taps and bridges live in the network namespace, files in tmpfs of
the mount namespace, programs in the process namespace, and the kernel removes all three with the runner, however
it ends. It also keeps the sandbox's rpcbind and DPDK run-time files apart from the machine's.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

INSIDE = "CAUSEWAY_INTEROP_SANDBOX"

# Inside the sandbox only. AF_UNIX paths are limited to 108 bytes, so this is short on purpose.
RUN = Path("/run/cw")


def inside() -> bool:
    return os.environ.get(INSIDE) == "1"


def enter() -> None:
    """Returns inside the sandbox; outside, runs this same command line in one and exits with its status."""
    if inside():
        _prepare()
        return
    if os.geteuid() != 0:
        sys.exit("the interop lab needs root: it makes network namespaces and taps")
    if shutil.which("unshare") is None:
        sys.exit("the interop lab needs unshare (package util-linux)")
    # pdeathsig: should this process be killed, unshare is killed too, and with it (--kill-child) the sandbox.
    command = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        sys.executable,
        *sys.argv,
    ]
    child = subprocess.Popen(command, env={**os.environ, INSIDE: "1"})

    def end(signum: int, _frame: object) -> NoReturn:
        # unshare ignores SIGTERM while it waits; killing it kills the namespace's first process, hence all.
        # No child.wait() here: the interrupted wait below holds its lock.
        os.kill(child.pid, signal.SIGKILL)
        os._exit(128 + signum)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, end)
    # On Ctrl-C the runner inside gets the signal too and ends in its own way.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(child.wait())


def _prepare() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target in ("/run", "/var/lib/nfs"):
        Path(target).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", target], check=True)
    RUN.mkdir()
    os.environ["XDG_RUNTIME_DIR"] = str(RUN)
