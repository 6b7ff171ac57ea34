"""Stock tools of rdma-core and perftest in the guest against causeway-verbs-peer: the transport's own interop cases.

In a case's name `server` or `client` is what *our* side is. netem impairs both directions. perftest compares no data, so
these cases prove that every operation completes and that every message arrives once and in its length; rping -V compares.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from lab import network
from lab.cases import Case
from lab.daemon import LabError
from lab.guest import Guest, Nic
from lab.rig import Wire
from lab.sandbox import RUN
from lab.verbs_peer import VerbsPeer

GUEST = "10.9.0.2"
GUEST_V6 = "fd09::2"

IMPAIRMENTS = {"": "", "loss1": "loss 1%", "duplicate1": "duplicate 1%", "reorder1": "delay 1ms reorder 1%"}

BANDWIDTH = ("send_bw", "write_bw", "read_bw", "atomic_bw")
LATENCY = ("send_lat", "write_lat", "read_lat", "atomic_lat")
ATOMIC_BYTES = 8


class PeerRig:
    """One guest and the wire to it; the program at the other end is started anew for each test."""

    def __init__(self, wire: Wire, logs: Path, capture: bool = False) -> None:
        self.wire = wire
        self.logs = logs
        if wire.transport == "vhost":
            nic = Nic("vhost", wire.link_mtu, socket=RUN / "vhost.sock")
        else:
            shares = "siw" if wire.transport == "siw" else ""
            nic = Nic("tap", wire.link_mtu, tap="roce-guest", capture=logs / "roce.pcap" if capture else None, shares=shares)
        self.peer = VerbsPeer(nic, logs)
        self.guest = Guest(nic, logs)

    def start(self) -> None:
        if self.wire.transport == "siw":
            network.share_with_kernel("siw", self.wire.link_mtu)
            self.guest.start()
        elif self.wire.transport == "tap":
            network.add_tap("roce-guest", self.wire.link_mtu)
            self.guest.start()
        else:
            self.peer.start("--rping-server")  # QEMU waits for the vhost-user socket
            self.guest.start()
            self.peer.stop()

    def stop(self) -> None:
        if self.guest.alive():
            with contextlib.suppress(LabError):
                (self.logs / "guest-dmesg.log").write_text(self.guest.run("dmesg", 10)[1])
        self.guest.stop()
        self.peer.stop()
        network.remove("roce-guest")

    def note(self, text: str) -> None:
        """What the tools printed, beside the logs."""
        with (self.logs / "tools.log").open("a") as log:
            log.write(text.rstrip("\n") + "\n")

    @contextlib.contextmanager
    def impaired(self, kind: str) -> Any:
        if not IMPAIRMENTS[kind]:
            yield
            return
        self.guest.check(f"netem_on {IMPAIRMENTS[kind]}")
        try:
            yield
        finally:
            self.guest.check("netem_off")

    def serve(self, arguments: list[str], command: str, timeout: int, v6: bool = False) -> dict[str, Any]:
        """Our side serves, the guest's tool is the client."""
        self.peer.start(*arguments, timeout=timeout, v6=v6)
        self.wait_for_link(v6)
        try:
            self.note(f"$ {command}\n" + self.guest.check(command, timeout))
        except LabError as error:
            raise LabError(f"{error}\n{self.peer.ending()}") from error
        return self.peer.result(timeout)  # a client whose DREQ is lost is found gone by its silence, in about 110 s

    def wait_for_link(self, v6: bool) -> None:
        ping = f"ping{' -6' if v6 else ''} -c 1 -W 1 {network.GATEWAY_V6 if v6 else network.GATEWAY}"
        self.guest.check(f"for n in 1 2 3 4 5 6 7 8 9; do {ping} >/dev/null && exit 0; sleep 0.3; done; exit 1", 20)

    def call(self, arguments: list[str], command: str, timeout: int, v6: bool = False) -> dict[str, Any]:
        """The guest's tool serves; our side is the client and tries until it listens. Without us a vhost link is down, and the tool
        would not find its port."""
        if self.wire.transport == "vhost":
            self.peer.start(*arguments, timeout=timeout, v6=v6)
            self.wait_for_link(v6)
        tool = self.guest.run_aside(f"{command} >/tmp/tool.out 2>&1 || {{ rc=$?; cat /tmp/tool.out; exit $rc; }}", timeout)
        try:
            if self.wire.transport != "vhost":
                self.peer.start(*arguments, timeout=timeout, v6=v6)
            return self.peer.result(timeout + 10, tool)
        finally:
            self.note(f"$ {command}\n" + self.guest.run("cat /tmp/tool.out", 10)[1])


@dataclass(frozen=True)
class Perftest:
    test: str
    role: str  # ours
    size: int = 65536  # 0: all sizes from 2 bytes to 8 MiB
    count: int = 50  # messages of each size and queue pair
    qps: int = 1
    impairment: str = ""

    @property
    def is_atomic(self) -> bool:
        return self.test.startswith("atomic")

    @property
    def name(self) -> str:
        parts = [f"ib_{self.test}", self.role]
        parts += [] if self.is_atomic else [f"{self.size}B" if self.size else "all"]
        parts += [f"{self.qps}qp"] if self.qps > 1 else []
        return "-".join(parts + ([self.impairment] if self.impairment else []))

    def body(self, rig: PeerRig) -> None:
        ours = ["--perftest", self.test, "-n", str(self.count), "-q", str(self.qps)]
        tool = f"ib_{self.test} -R -F -n {self.count}"
        if not self.is_atomic:
            ours += ["-s", str(self.size)] if self.size else ["--all"]
            tool += f" -s {self.size}" if self.size else " -a"
        tool += f" -q {self.qps}" if self.qps > 1 else ""
        if rig.wire.transport == "siw":
            tool = f"ulimit -l unlimited; {tool}"  # siw counts what it pins, also for root
        with rig.impaired(self.impairment):
            if self.role == "server":
                report = rig.serve([*ours, "--server"], f"{tool} {network.GATEWAY}", 180)
            else:
                report = rig.call([*ours, "--client", GUEST], tool, 180)
        if report["connections"] != 1 + self.qps:
            raise LabError(f"{report['connections']} connections instead of {1 + self.qps}")
        check_counters(report, self.impairment)


def check_counters(report: dict[str, Any], impairment: str) -> None:
    counters = report["counters"]
    if counters["qps_failed"]:
        raise LabError(f"{counters['qps_failed']} queue pairs failed")
    if impairment == "loss1" and not (counters["retransmitted"] or counters["out_of_sequence"] or counters["duplicate_requests"]):
        raise LabError("nothing was lost, so nothing was shown")


def rping(
    role: str, sizes: tuple[int, ...], count: int = 10, connections: int = 1, v6: bool = False, impairment: str = ""
) -> Callable[[PeerRig], None]:
    def body(rig: PeerRig) -> None:
        for size in sizes:
            with rig.impaired(impairment):
                rounds = f"-C {count} -S {size} -V"
                if role == "server":
                    client = f"rping -c -a {network.GATEWAY_V6 if v6 else network.GATEWAY} {rounds}"
                    # Side by side, each with its exit status.
                    command = (
                        f"rm -f /tmp/rping.*;"
                        f" one() {{ {client} >/tmp/rping.$1 2>&1 || {RPING_RACE} /tmp/rping.$1; }};"
                        f' for n in $(seq {connections}); do one $n & pids="$pids $!"; done;'
                        " for pid in $pids; do wait $pid || { cat /tmp/rping.*; exit 1; }; done"
                    )
                    report = rig.serve(["--rping-server", "-q", str(connections)], command, 180, v6)
                else:
                    ours = [
                        "--rping-client",
                        GUEST_V6 if v6 else GUEST,
                        "-n",
                        str(count),
                        "-s",
                        str(size),
                        "-q",
                        str(connections),
                    ]
                    # -P serves until it is ended.
                    command = f"rping -s {'-a ::0 ' if v6 else ''}{rounds}"
                    if connections > 1:
                        command = (
                            f"rping -s -P {rounds} & server=$!; while [ ! -e /tmp/enough ]; do sleep 0.2; done; kill $server"
                        )
                        rig.guest.check("rm -f /tmp/enough")
                        tool = rig.guest.run_aside(command, 120)
                        rig.peer.start(*ours, timeout=120, v6=v6)
                        try:
                            report = rig.peer.result(130)
                        finally:
                            rig.guest.check("touch /tmp/enough")
                        tool.result()
                    else:
                        report = rig.call(ours, command, 120, v6)
            pings = [session["pings"] for session in report["sessions"]]
            if pings != [count] * connections:
                raise LabError(f"{pings} pings instead of {count} each")
            check_counters(report, "")

    return body


# When all is done rping closes its event channel while its own thread still waits for events there, and sometimes ends with
# the error of that, 255, although every ping was right: what it printed says so and nothing of wrong data.
RPING_RACE = (
    "awk '/mismatch|error/ { bad = 1 } /rdma_get_cm_event: Bad file descriptor/ { race = 1 }" " END { exit bad || !race }'"
)
RPING_SIZES = (32, 1025, 4096, 65535)


def peer_cases() -> list[Case]:
    """The default run: every test in both roles, a little of each impairment. --full: all of it, with both MTUs."""
    cases: list[Case] = []
    for transport, mtu in (("tap", 4096), ("tap", 1024), ("vhost", 4096)):
        wire = Wire("peers", transport, mtu)

        def add(name: str, body: Callable[[Any], None], quick: bool = False, wire: Wire = wire) -> None:
            cases.append(Case(f"{name}-{wire.name}", wire, body, quick and wire.name == "tap-4096"))

        def perftest(test: str, role: str, quick: bool = False, **options: Any) -> None:
            if test.startswith("atomic"):
                if options.get("size") in (0, 1):
                    return  # there is only one size
                options.update(size=ATOMIC_BYTES, count=options.get("count", 50) * (10 if test == "atomic_bw" else 1))
            case = Perftest(test, role, **options)
            add(case.name, case.body, quick)

        for role in ("server", "client"):
            add(f"rping-{role}", rping(role, RPING_SIZES), True)
        if transport == "vhost":
            for test in BANDWIDTH:
                for role in ("server", "client"):
                    perftest(test, role, size=0, count=5)
            continue
        for role in ("server", "client"):
            add(f"rping-{role}-v6", rping(role, (64, 65535), v6=True), role == "server")
            add(f"rping-{role}-16qp", rping(role, (5000,), connections=16))
            for kind in list(IMPAIRMENTS)[1:]:
                add(f"rping-{role}-{kind}", rping(role, (30000,), 20, impairment=kind))
            for test in BANDWIDTH:
                perftest(test, role, True, size=65536 if role == "server" else 4097)
                perftest(test, role, size=1, count=500)
                perftest(test, role, (test, role) == ("write_bw", "server"), size=0, count=5)
                perftest(test, role, (test, role) in (("send_bw", "server"), ("read_bw", "client")), size=10000, count=20, qps=16)
                for kind in list(IMPAIRMENTS)[1:]:
                    quick = (test, role, kind) in (
                        ("write_bw", "server", "loss1"),
                        ("send_bw", "client", "duplicate1"),
                        ("read_bw", "server", "reorder1"),
                        ("atomic_bw", "server", "duplicate1"),
                        ("atomic_bw", "client", "loss1"),
                    )
                    perftest(test, role, quick, size=30000, impairment=kind)
                    perftest(test, role, size=10000, count=20, qps=16, impairment=kind)
            for test in LATENCY:
                perftest(test, role, True, size=100, count=100)
                perftest(test, role, size=1, count=100)
                perftest(test, role, size=0, count=5)
                for kind in list(IMPAIRMENTS)[1:]:
                    perftest(test, role, size=5000, count=200, impairment=kind)
    return cases + _iwarp_cases()


def _iwarp_cases() -> list[Case]:
    """The same tools over siw, which has no atomic operations. In send_bw the receiver grants credits after every 170 messages. In
    write_lat the server speaks first: siw does so as a server, and ours may not (RFC 5044 7.1.2: the responder waits for the
    initiator's first FPDU, and siw offers no other sign), so that one side of this test is missing.
    """
    cases: list[Case] = []
    wire = Wire("peers", "siw", 0)
    for role in ("server", "client"):
        cases.append(Case(f"rping-{role}-siw", wire, rping(role, RPING_SIZES)))
        tests = ("send_bw", "write_bw", "read_bw", "send_lat", "read_lat")
        for test in (*tests, "write_lat") if role == "client" else tests:
            count = 100 if test.endswith("_lat") else 2000 if test == "send_bw" else 50
            for options in ({"size": 1, "count": count}, {"size": 65536, "count": count}, {"size": 0, "count": 5}):
                case = Perftest(test, role, **options)
                cases.append(Case(f"{case.name}-siw", wire, case.body))
    return cases
