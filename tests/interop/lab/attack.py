"""Clients on rdma-core that reach for what nobody gave them, while another client works on a mount.

attack: for memory of the gateway, by RDMA Writes, Reads and atomic operations with guessed keys at guessed addresses, one connection each.
The gateway exposes no memory: each such connection ends, is counted once, and nobody else notices.

flood: for more than its credits, by calls without end whose answers it never takes. It gets no further than its send queue at the gateway
and the receives that it was granted, waits there alone, and is ended when its answers have found no receive for as long as they may take.
"""

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from lab import network
from lab.daemon import LabError, wait_until
from lab.metrics import Metrics
from lab.rig import MOUNT_POINT, Rig

IN_GUEST = "/tmp/causeway-verbs-attacker"
# Keys of rxe and of our own table begin with an index, so low numbers are the best guesses; siw's do too. None is a key that was given.
KEYS = ("0", "0x1ff", "0x5eed1234", "0xffffffff")
ADDRESSES = ("0", "0x7f0000000000")
OPERATIONS = ("write", "read", "swap", "add")
# The device itself refused: siw has no atomic operations, and no READs where the server grants none.
NOT_SENT = 2


def _program() -> Path:
    root = Path(__file__).resolve().parents[3]
    return Path(os.environ.get("CAUSEWAY_VERBS_ATTACKER", root / "build/tests/peers/causeway-verbs-attacker"))


def _ended(rig: Rig, metrics: Metrics) -> float:
    """Connections. On siw some are over before the kernel has told the gateway of them."""
    closed = metrics.total("causeway_connections_closed_total")
    return closed + (metrics.total("causeway_connections_handshake_failures_total") if rig.wire.verbs == "siw0" else 0)


# An RNIC says that its queue pair was reached for; rxe says no reason, and takes back what was posted.
VERBS_CAUSES = ("access_error", "request_error", "flushed")


def _told_by_wire(rig: Rig, metrics: Metrics) -> float:
    """Connections that ended because their client reached for memory, as the wire counts them; `metrics`: of this moment."""
    if rig.wire.verbs == "siw0":
        # It tells its owner of a connection that has ended, no more. The attacker is told, by a Terminate message.
        return float(rig.guest.run("dmesg | grep -c 'siw: got TERMINATE'")[1])
    if rig.wire.transport == "siw":
        return metrics.total("causeway_iwarp_terminates_total", direction="tx")
    if rig.wire.verbs:
        return sum(metrics.total("causeway_verbs_queue_pairs_ended_total", cause=cause) for cause in VERBS_CAUSES)
    naks = "causeway_roce_naks_total"
    return sum(metrics.total(naks, direction="tx", code=code) for code in ("remote_access", "invalid_request"))


CALLS = 100_000
# 256 answers fill the send queue, 64 calls wait for room in it, and 16 receives are for replies to calls of the gateway's own.
TAKEN_MAX = 256 + 64 + 16


@contextmanager
def _beside_a_client(rig: Rig, directory: str) -> Iterator[Metrics]:
    """The attacker is in the guest, where another client has files in the directory of a mount. Yields the metrics of before. At the
    end that client still has its connection and its files."""
    assert rig.gateway
    rig.guest.send_program(_program(), IN_GUEST)
    with rig.mounted("3"):
        rig.guest.check(f"make_sources 1048576 && write_files {MOUNT_POINT}/{directory}")
        yield rig.gateway.metrics()
        if rig.stats().xprt["connect_count"] != 1:
            raise LabError("the other client lost its connection")
        rig.guest.check(f"check_files {MOUNT_POINT}/{directory}", 60)
    rig.backend.remove_tree(directory)


def _metrics_of_the_end(rig: Rig) -> Metrics:
    """When only the other client is connected."""
    assert rig.gateway
    gateway = rig.gateway
    wait_until(lambda: gateway.metrics().total("causeway_connections") == 1, 30, "the end of the attackers' connections")
    return gateway.metrics()


def flood(rig: Rig) -> None:
    with _beside_a_client(rig, "flooded") as before:
        files = f"{MOUNT_POINT}/flooded"
        status, said = rig.guest.run(
            f"{IN_GUEST} {network.GATEWAY} 20049 flood {CALLS} > /tmp/flood.log 2>&1 & flooder=$!; sleep 2;"
            f" write_files {files} && check_files {files} || echo no neighbour;"
            " wait $flooder; status=$?; cat /tmp/flood.log; exit $status",
            150,
        )
        print(f"   {said.strip()}", flush=True)
        if status != 0 or "no neighbour" in said:
            raise LabError(f"status {status}: {said.strip()}")
        taken = int(said.split(" calls taken")[0].split()[-1])
        # Over iWARP a SEND is done for its sender when its own TCP has it.
        if taken > TAKEN_MAX and rig.wire.transport != "siw" and rig.wire.verbs != "siw0":
            raise LabError(f"{taken} calls were taken of one that takes no answers")
        ended = _ended(rig, _metrics_of_the_end(rig)) - _ended(rig, before)
        if ended != 1:
            raise LabError(f"{ended:.0f} connections have ended, and not the flooder's alone")


def attack(rig: Rig) -> None:
    with _beside_a_client(rig, "attacked") as before:
        told_before = _told_by_wire(rig, before)
        made = 0
        for operation in OPERATIONS:
            for key in KEYS:
                for address in ADDRESSES if key == KEYS[0] else ADDRESSES[1:]:
                    status, said = rig.guest.run(f"{IN_GUEST} {network.GATEWAY} 20049 {operation} {key} {address}", 40)
                    with (rig.logs / "attacks.log").open("a") as log:
                        log.write(f"{operation} {key} {address}: status {status}: {said.strip()}\n")
                    if status != 0 and not (status == NOT_SENT and "not posted" in said):
                        raise LabError(f"{operation} with key {key} at {address}: {said.strip()}")
                    made += status == 0
        if made < len(KEYS):
            raise LabError(f"only {made} operations were sent")
        after = _metrics_of_the_end(rig)
        ended, told = _ended(rig, after) - _ended(rig, before), _told_by_wire(rig, after) - told_before
        print(f"   {made} operations, {ended:.0f} connections ended, {told:.0f} of them told by the wire", flush=True)
        if ended < made or told != made:
            raise LabError(f"{made} operations, but {ended:.0f} connections ended, {told:.0f} of them told by the wire")
