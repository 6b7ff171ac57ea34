#!/usr/bin/env python3
"""The NFS demonstration: a Linux guest mounts NFSv4.1 over RDMA through causewayd, step by step, in about a minute.

deploy/quickstart.sh --nfs runs this. Exit status 0 when every step did what it says.
"""

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from lab import image, network, sandbox, workload  # noqa: E402
from lab.daemon import LabError  # noqa: E402
from lab.rig import MOUNT_POINT, Rig, Wire  # noqa: E402

LOGS = Path(os.environ.get("CAUSEWAY_LOGS", Path(__file__).resolve().parents[2] / "build/interop-logs")) / "demo"

# Families worth showing; the rest is on the metrics address.
SHOWN = (
    "causeway_build_info",
    "causeway_connections",
    "causeway_connections_total",
    "causeway_backend_up",
    "causeway_rpcrdma_messages_total",
    "causeway_rpcrdma_chunk_bytes_total",
    "causeway_rpcrdma_errors_total",
    "causeway_roce_packets_total",
    "causeway_roce_discards_total",
)

STEPS = 6


def step(number: int, text: str) -> None:
    print(f"\n[{number}/{STEPS}] {text}", flush=True)


def note(text: str) -> None:
    for line in text.strip().splitlines():
        print(f"      {line}", flush=True)


def rate(size: int, seconds: float) -> str:
    return f"{size / workload.MIB:.0f} MiB in {seconds:.1f} s, {size / workload.MIB / seconds:.1f} MiB/s"


def show(rig: Rig) -> None:
    """The six steps; any of them raises LabError when it fails."""
    size_mib = 32
    size = size_mib * workload.MIB
    step(1, "Start the servers and a Linux guest")
    start = time.monotonic()
    rig.start()
    if rig.gateway:
        note("NFS-Ganesha serves a directory over TCP. causewayd serves RoCEv2 on a DPDK port and forwards to it.")
    else:
        note("A second guest runs the kernel's NFS/RDMA server.")
    kernel = rig.guest.check("uname -r").strip()
    note(f"The guest runs Linux {kernel} with rdma_rxe, the kernel's RoCEv2 in software ({time.monotonic() - start:.0f} s).")
    note("Processors are emulated, so the speeds below say nothing about Causeway's.")

    step(2, "Mount NFSv4.1 over RDMA")
    note(f"guest# {rig.mount_command('4.1')}")
    with rig.mounted("4.1"):
        note(rig.guest.check(f"grep ' {MOUNT_POINT} ' /proc/mounts"))

        step(3, f"Write {size_mib} MiB")
        rig.guest.check(f"make_sources {size}", 60)
        start = time.monotonic()
        rig.guest.check(f"write_files {MOUNT_POINT}/demo", 300)
        note(rate(size, time.monotonic() - start) + "; the gateway fetched the data by RDMA Read")

        step(4, "Drop the guest's caches, read it back and compare")
        start = time.monotonic()
        rig.guest.check(f"check_files {MOUNT_POINT}/demo", 300)
        note(rate(size, time.monotonic() - start) + "; the gateway placed the data by RDMA Write")
        written = rig.guest.check("cat /tmp/src/SUMS").split()[0]
        stored = rig.backend.digests("demo")[f"f{size}"]
        note(f"md5 in the guest      {written}")
        note(f"md5 in the server's   {stored}")
        if written != stored:
            raise LabError("the checksums differ")

        step(5, "What the two ends counted")
        stats = rig.stats()
        note(
            "client: "
            + ", ".join(
                f"{name} {stats.xprt[name]}"
                for name in ("rpcsends", "rpcreceives", "read_segments", "write_segments", "reply_segments", "bad_reply")
            )
        )
        metrics = rig.scrape()
        if metrics:
            note("causewayd, from its Prometheus endpoint:")
            note(
                "\n".join(
                    line
                    for line in metrics.text.splitlines()
                    if line.split("{")[0].split(" ")[0] in SHOWN and not line.endswith(" 0")
                )
            )

        step(6, "Unmount and stop")
    if rig.gateway:
        rig.gateway.terminate()
    note("Unmounted cleanly, everything stopped.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transport", choices=("vhost", "tap"), default="vhost")
    parser.add_argument("--reference", action="store_true", help="the kernel's server in causewayd's place")
    options = parser.parse_args()
    if not sandbox.inside():
        try:
            image.build()
        except LabError as error:
            print(f"demo: {error}")
            return 1
        shutil.rmtree(LOGS, ignore_errors=True)
    sandbox.enter()
    LOGS.mkdir(parents=True, exist_ok=True)
    network.set_up()
    wire = Wire("reference", "tap", 4096) if options.reference else Wire("gateway", options.transport, 4096)
    rig = None
    try:
        rig = Rig(wire, LOGS)
        show(rig)
    except LabError as error:
        print(f"\nThe demonstration failed: {error}\nLogs: {LOGS}", flush=True)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", flush=True)
        return 130
    finally:
        if rig:
            rig.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
