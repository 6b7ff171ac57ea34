"""Networks that lose, delay, duplicate and overtake: the same work on one NFSv4.1 mount, once through causewayd and once with the
kernel's own NFS/RDMA server, the same client. Prints a table: replies, seconds and connections of each.

What is wanted of the gateway: one connection for the whole work where packets are lost or overtaken, and at least ten times the kernel
pair's replies in a second where everything happens at once. A client's rxe that goes back and sends again may hang by its own
mistake (README.md, "Facts worth knowing"; the guest's kernel says so). That is forgiven where packets are lost, since it has to go
back then, and not where they are only overtaken: nobody has to ask it to. Of a row in which a connection broke, roce.pcap stays.

The seconds are those that a server has a part in: what the client's own timers take (client_waits.py) is printed apart, for both. A
call that the network loses comes again two seconds later, whoever the server is, and a hang takes a minute; without such a loss
the same work takes some seconds.
"""

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Callable

from lab.client_waits import client_waits
from lab.daemon import LabError
from lab.exercise import IN_GUEST, send_program
from lab.rig import MOUNT_POINT, Rig, Wire

LOSS = "loss 2%"
JITTER = "delay 300us 200us"
ALL_AT_ONCE = "loss 2% duplicate 1% delay 300us 200us reorder 10%"
ROWS = (LOSS, JITTER, ALL_AT_ONCE)  # netem's words, each way
CLIENT = "10.9.0.2"
LIMIT_S = 300
OPERATIONS = 400  # of the exerciser, one worker on files of up to 256 KiB
# Before knfsd on a tmpfs some seeds read stale pages, in a good network too; this one does not.
SEED = 2
RXE_HANG = "rxe_reg_fast_mr: *mr->lkey = .* not free"  # 6.12 has two spaces
# Linux 6.12 says so only when asked.
SAY_HANGS = "mount -t debugfs none /sys/kernel/debug; echo 'file rxe_mr.c +p' >/sys/kernel/debug/dynamic_debug/control"
TIMES_KERNEL = 10


@dataclass(frozen=True)
class Outcome:
    netem: str
    server: str  # "Causeway" or "knfsd"
    finished: bool
    replies: int
    seconds: float
    connections: int
    waits: float  # seconds of them that only the client's own timers could end
    hangs: int  # of rxe in the client, its own fault: the queue pair falls silent and the NFS client connects anew a minute later
    wrong: bool = False  # what was read differed from what had been written; of causewayd that ends the case

    @property
    def rate(self) -> float:
        return self.replies / (self.seconds - self.waits)

    def text(self) -> str:
        done = "" if self.finished else ", ended by wrong data" if self.wrong else ", not finished"
        own = f" ({self.hangs} hang{'s' if self.hangs != 1 else ''} of the client's rxe)" if self.hangs else ""
        time_taken = f"{self.seconds - self.waits:.1f} s and {self.waits:.0f} s of the client's own timers"
        return f"{self.replies} replies in {time_taken}, {self.connections} connection{'s' if self.connections != 1 else ''}{own}{done}"

    def broken(self) -> int:
        """Connections that ended, but for those that a hang of the client cost where it had to send again."""
        return max(0, self.connections - 1 - (self.hangs if "loss" in self.netem else 0))


def _work(rig: Rig, netem: str) -> Outcome:
    send_program(rig)
    rig.guest.check(rig.mount_command("4.1"), 40)
    before = rig.stats().xprt
    rig.guest.run(SAY_HANGS)
    rig.guest.check(f"netem_on {netem}")
    command = (
        f"{IN_GUEST} {MOUNT_POINT}/disorder{ROWS.index(netem)} --seed {SEED} --workers 1 --files 2 --shared 0 --bytes-max 262144 --entries-max 5"
        f" --operations {OPERATIONS} --seconds {10 * LIMIT_S} --drop-caches --keep --replays"
    )
    start = time.monotonic()
    job = rig.guest.run_aside(f"( {command} ) >/tmp/disorder.log 2>&1; echo $? >/tmp/disorder.status", LIMIT_S)
    while job.running() and time.monotonic() < start + LIMIT_S:
        time.sleep(0.5)
    seconds = time.monotonic() - start
    log = rig.guest.run("cat /tmp/disorder.log")[1]
    (rig.logs / "disorder.log").write_text(log)
    status = rig.guest.run("cat /tmp/disorder.status 2>/dev/null")[1].strip()
    wrong = next((line for line in log.splitlines() if line.startswith("FAIL")), "")
    if wrong and rig.gateway:
        raise LabError(f"{netem}: {wrong}")
    after = rig.stats().xprt
    hangs = int(rig.guest.check(f"dmesg | grep -c '{RXE_HANG}'; true").strip())
    return Outcome(
        netem,
        "Causeway" if rig.gateway else "knfsd",
        status == "0",
        after["rpcreceives"] - before["rpcreceives"],
        seconds,
        after["connect_count"] - before["connect_count"] + 1,
        0,  # known when the capture is complete
        hangs,
        bool(wrong),
    )


def _row(wire: Wire, logs: Path, netem: str) -> Outcome:
    """A rig for each row: work that hangs behind a broken connection keeps the guest busy."""
    logs.mkdir(parents=True, exist_ok=True)
    rig = Rig(wire, logs, capture=True)
    try:
        rig.start()
        outcome = _work(rig, netem)
    finally:
        rig.stop()
    outcome = replace(outcome, waits=client_waits(logs / "roce.pcap", CLIENT))
    if outcome.connections == 1:
        (logs / "roce.pcap").unlink(missing_ok=True)
    print(f"   {netem}: {outcome.server}: {outcome.text()}", flush=True)
    return outcome


def table(outcomes: list[Outcome]) -> str:
    lines = ["| netem, each way | Causeway | knfsd's NFS/RDMA, same client |", "|---|---|---|"]
    for netem in ROWS:
        texts = {outcome.server: outcome.text() for outcome in outcomes if outcome.netem == netem}
        lines.append(f"| {netem} | {texts.get('Causeway', '')} | {texts.get('knfsd', '')} |")
    return "\n".join(lines)


def disorder(kernel: str) -> Callable[[Path], None]:
    """`kernel`: the series of the client's."""

    def body(logs: Path) -> None:
        outcomes: list[Outcome] = []
        for netem in ROWS:
            for kind in ("gateway", "reference"):
                place = logs / f"{kind}-{ROWS.index(netem) + 1}"
                outcomes.append(_row(Wire(kind, "tap", 4096, kernel=kernel), place, netem))
                (logs / "disorder.json").write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
        print(table(outcomes), flush=True)
        _judge(outcomes)

    return body


def _judge(outcomes: list[Outcome]) -> None:
    by_row = {(outcome.netem, outcome.server): outcome for outcome in outcomes}
    for netem in (LOSS, JITTER):
        ours = by_row[netem, "Causeway"]
        if ours.broken() or not ours.finished:
            raise LabError(f"{netem}: {ours.text()}")
    ours, theirs = by_row[ALL_AT_ONCE, "Causeway"], by_row[ALL_AT_ONCE, "knfsd"]
    if ours.rate < TIMES_KERNEL * theirs.rate:
        raise LabError(f"{ALL_AT_ONCE}: {ours.rate:.1f} replies in a second, the kernel pair {theirs.rate:.1f}")
