#!/usr/bin/env python3
"""The interop suite: a Linux guest mounts NFS/RDMA through causewayd to NFS-Ganesha. See README.md.

Prints `ok NAME (seconds)` or `FAIL NAME: reason` for each case and `N passed, N failed` at the end.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Optional, Union

sys.path.insert(0, str(Path(__file__).resolve().parent))

from lab import cases, image, lanes, network, nfs_client, peers, sandbox  # noqa: E402
from lab.cases import Case  # noqa: E402
from lab.daemon import LabError  # noqa: E402
from lab.nfs_client import NfsRig  # noqa: E402
from lab.peers import PeerRig  # noqa: E402
from lab.results import Results, write_results  # noqa: E402
from lab.rig import Rig, Wire  # noqa: E402

LOGS = Path(os.environ.get("CAUSEWAY_LOGS", Path(__file__).resolve().parents[2] / "build/interop-logs"))

AnyRig = Union[Rig, PeerRig, NfsRig]
RIGS: dict[str, type[AnyRig]] = {"peers": PeerRig, "nfs-client": NfsRig}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Interop suite of Causeway.")
    parser.add_argument("--full", action="store_true", help="every case, not only the default subset")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and end")
    parser.add_argument(
        "-k",
        metavar="NAME",
        action="append",
        help="the case NAME, or cases whose name contains it (implies --full); several times: any of them",
    )
    parser.add_argument("--transport", choices=("vhost", "tap"), help="cases of this transport only")
    parser.add_argument("--capture", action="store_true", help="keep a roce.pcap with the logs (tap only)")
    parser.add_argument(
        "--jobs", metavar="N", type=int, help="rigs side by side; default: 2 for the default subset, 1 for others"
    )
    parser.add_argument(
        "--second-tries",
        metavar="N",
        type=int,
        default=0,
        help="so many cases that fail may be tried once more, each rig for itself; the output says which, and why",
    )
    parser.add_argument("--shell", action="store_true", help="start what the first case needs and open a guest shell")
    parser.add_argument(
        "--results",
        metavar="FILE",
        type=Path,
        default=LOGS / "results.json",
        help="where to write what came of each case, for matrix.py; default: %(default)s",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--direct", action="store_true", help="without causewayd: TCP to Ganesha, and the wiring")
    kind.add_argument("--peers", action="store_true", help="only rping and perftest against causeway-verbs-peer")
    kind.add_argument("--nfs-client", action="store_true", help="only causeway-nfs-client, against knfsd and causewayd")
    kind.add_argument("--reference", action="store_true", help="without causewayd: a kernel NFS/RDMA server")
    return parser.parse_args()


def selected(options: argparse.Namespace) -> list[Case]:
    if options.direct:
        chosen = cases.direct_cases()
    elif options.reference:
        chosen = cases.reference_cases()
    elif options.peers:
        chosen = peers.peer_cases()
    elif options.nfs_client:
        chosen = nfs_client.nfs_client_cases()
    else:
        chosen = cases.gateway_cases() + nfs_client.nfs_client_cases() + peers.peer_cases()
    if options.k:
        names = {case.name for case in chosen}
        chosen = [case for case in chosen if any(k == case.name if k in names else k in case.name for k in options.k)]
    elif not options.full:
        chosen = [case for case in chosen if case.quick]
    if options.transport:
        chosen = [case for case in chosen if options.transport in case.name]
    return chosen


class Runner:
    """Keeps one rig up for neighbouring cases of the same wire; after a failure the next case gets a fresh one."""

    def __init__(self, results: Results, capture: bool = False, second_tries: int = 0) -> None:
        self.capture = capture
        self._second_tries = second_tries  # left
        self._results = results
        self.passed = 0
        self.failed = 0
        self._rig: Optional[AnyRig] = None
        self._broken: dict[Wire, str] = {}  # wires whose rig did not start
        self._boots = 0

    def run(self, case: Case) -> None:
        start = time.monotonic()
        reason = self._try(case)
        if reason and self._second_tries > 0:
            self._second_tries -= 1
            print(f"again {case.name}: {reason}", flush=True)
            start = time.monotonic()
            self._broken.clear()
            reason = self._try(case)
        self._results.add(case, time.monotonic() - start, reason)
        if reason:
            self.failed += 1
            print(f"FAIL {case.name}: {reason}", flush=True)
        else:
            self.passed += 1
            print(f"ok {case.name} ({time.monotonic() - start:.1f})", flush=True)

    def _try(self, case: Case) -> str:
        """Why it failed; empty: it passed."""
        try:
            if case.wire is None:
                self.stop()
                assert case.alone is not None
                case.alone(self._logs(case.name))
            else:
                case.body(self.rig_for(case.wire))
        except Exception as error:  # a mistake in a case costs this case and says where it is, not the run
            if not isinstance(error, (LabError, OSError)):
                traceback.print_exc()
            if isinstance(self._rig, Rig):
                self._rig.note_state()
            self.stop()
            return str(error) or type(error).__name__
        return ""

    def stop(self) -> None:
        if self._rig:
            self._rig.stop()
            self._rig = None

    def rig_for(self, wire: Wire) -> AnyRig:
        if self._rig and self._rig.wire == wire:
            return self._rig
        self.stop()
        if wire in self._broken:
            raise LabError(self._broken[wire])
        try:
            rig = RIGS.get(wire.kind, Rig)(wire, self._logs(f"{wire.kind}-{wire.name}"), self.capture)
            self._rig = rig
            rig.start()
        except (LabError, OSError) as error:
            self._broken[wire] = f"the rig did not start: {error}"
            raise
        return rig

    def _logs(self, name: str) -> Path:
        self._boots += 1
        directory = LOGS / f"{self._boots:02}-{name}"
        directory.mkdir(parents=True, exist_ok=True)
        return directory


def side_by_side(options: argparse.Namespace, chosen: list[Case], jobs: int) -> int:
    kinds = [
        f"--{kind}"
        for kind in ("direct", "peers", "nfs-client", "reference", "capture")
        if getattr(options, kind.replace("-", "_"))
    ] + ["--second-tries", str(options.second_tries)]
    run = lanes.Lanes(lanes.groups_of(chosen), LOGS, kinds)
    finished = run.run(jobs)
    write_results(options.results, run.results())
    if not finished:
        print("interrupted", flush=True)
    print(f"{run.passed} passed, {run.failed} failed", flush=True)
    return 130 if not finished else 0 if run.failed == 0 and run.passed > 0 else 1


def shell(runner: Runner, wire: Wire) -> int:
    """A guest to look around in; ends with the shell (exit, or Ctrl-] and `e`)."""
    try:
        rig = runner.rig_for(wire)
        if isinstance(rig, NfsRig):
            raise LabError("these cases have no guest to look around in")
        print(f"Guest at {rig.guest.address}; `. /lib/causeway/lib.sh` gives the suite's functions.")
        if isinstance(rig, Rig):
            print("To mount:")
            for version in ("3", "4.1"):
                print(f"  {rig.mount_command(version)}")
        print(f"Logs: {rig.logs}. A shell beside the servers: " "nsenter -n -m -t $(pidof -s qemu-system-x86_64)", flush=True)
        subprocess.call([str(image.BUSYBOX), "telnet", rig.guest.address])
        return 0
    except LabError as error:
        print(f"cannot start: {error}")
        return 1
    finally:
        runner.stop()


def main() -> int:
    options = arguments()
    chosen = selected(options)
    if options.list:
        print("\n".join(case.name for case in chosen))
        return 0
    if not sandbox.inside():
        # Needs the machine's network, so before the sandbox. Cases that start their guests themselves have the kernel in their name.
        newer = any(f"linux{image.NEWER}" in case.name for case in chosen)
        image.build((image.USUAL, image.NEWER) if newer else (image.USUAL,))
        for old in LOGS.glob("[0-9][0-9]-*"):
            shutil.rmtree(old, ignore_errors=True)
        usual = 2 if not options.full and not options.k and (os.cpu_count() or 1) > 1 else 1
        jobs = min(options.jobs or usual, len(lanes.groups_of(chosen)))
        if jobs > 1 and not options.shell:
            return side_by_side(options, chosen, jobs)
    sandbox.enter()
    network.set_up()
    runner = Runner(Results(options.results), options.capture, options.second_tries)
    if options.shell:
        return shell(runner, next(case.wire for case in chosen if case.wire))
    try:
        for case in chosen:
            runner.run(case)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return 130
    finally:
        runner.stop()
        print(f"{runner.passed} passed, {runner.failed} failed", flush=True)
    return 0 if runner.failed == 0 and runner.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
