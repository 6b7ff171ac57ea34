"""The cases, by name. Each is a function of a running rig and raises LabError with the reason when it fails."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

from lab import (
    attack,
    beside,
    churn,
    clock_step,
    disorder,
    exercise,
    failover,
    figures,
    idle,
    image,
    isolation,
    kerberos,
    mount_churn,
    mountstats,
    network,
    nic,
    rdma_device,
    rdma_load,
    stall,
    workload,
)
from lab.daemon import LabError, wait_until
from lab.ganesha import Ganesha
from lab.gateway import Gateway
from lab.gateway_guest import GatewayGuest
from lab.guest import CPU, Guest, Nic
from lab.metrics import Metrics
from lab.reference import KnfsdTcp, Reference
from lab.rig import MOUNT_POINT, Rig, Wire
from lab.sandbox import RUN
from lab.testpmd import TestPmd
from lab.workload import LARGE, MEDIUM, SMALL

VERSIONS = ("3", "4.0", "4.1", "4.2")


@dataclass(frozen=True)
class Case:
    name: str
    wire: Optional[Wire]  # None: the case starts what it needs itself
    body: Callable[[Rig], None]
    quick: bool = False  # part of the default run
    alone: Optional[Callable[[Path], None]] = None  # instead of body, when wire is None


def no_errors(metrics: Metrics) -> None:
    for name in ("causeway_rpcrdma_errors_total", "causeway_rpcrdma_credit_violations_total"):
        if metrics.total(name) != 0:
            raise LabError(f"{name} is {metrics.by_label(name, 'code')}")


def _procedures_agree(client: mountstats.MountStats, before: Metrics, after: Metrics, version: str) -> None:
    """The client counts its calls by what they are about, and the gateway finds that in the COMPOUNDs. Only those that neither a
    mount nor a lease makes by itself, and that have all been answered."""
    for operation in ("READ", "WRITE", "SETATTR", "REMOVE", "CREATE", "COMMIT"):
        if operation == "CREATE" and version != "3":
            continue  # of NFSv4 it makes directories and links, and the client counts those apart
        labels = {"program": f"nfs{version[0]}", "procedure": operation.lower()}
        name = "causeway_rpc_duration_seconds_count"
        seen = after.total(name, **labels) - before.total(name, **labels)
        if seen != client.operations.get(operation, 0):
            raise LabError(f"{operation}: the client counts {client.operations.get(operation, 0)}, the gateway {seen:g}")


def nfs(version: str, sizes: tuple[int, ...], v6: bool = False) -> Callable[[Rig], None]:
    def body(rig: Rig) -> None:
        before = rig.scrape()
        with rig.mounted(version, v6):
            workload.everything(rig, f"nfs{version}{'v6' if v6 else ''}", sizes)
            metrics = rig.scrape()
            if before and metrics:
                no_errors(metrics)
                metrics.lint()
                _procedures_agree(rig.stats(), before, metrics, version)

    return body


def loss(version: str, sizes: tuple[int, ...], entries: int = 1000, percent: int = 1, more: str = "") -> Callable[[Rig], None]:
    """The workload with netem loss on both directions of the guest's NIC. Slow by nature: a lost request that
    nothing follows costs the client its ack timeout, 2.1 s with Linux' default."""

    def body(rig: Rig) -> None:
        with rig.mounted(version, more=more):
            rig.guest.check(f"loss_on {percent}")
            try:
                directory = f"loss{version}"
                rig.guest.check(f"mkdir {MOUNT_POINT}/{directory}", 60)
                workload.files(rig, f"{directory}/files", sizes)
                workload.entries(rig, f"{directory}/entries", entries)
                workload.long_symlink(rig, f"{directory}/link")
                workload.changes(rig, f"{directory}/changes")
                counts = dict(line.split() for line in rig.guest.check("loss_counts").splitlines())
            finally:
                rig.guest.check("loss_off")
            if not all(int(counts.get(way, 0)) > 0 for way in ("in", "out")):
                raise LabError(f"netem dropped nothing: {counts}")
            metrics = rig.scrape()
            if metrics:
                no_errors(metrics)
            rig.backend.remove_tree(directory)  # another case may lose packets on the same export

    return body


def restart(
    version: str, crash: Callable[[Rig], None], back: Callable[[Rig], None], down_seconds: float = 2
) -> Callable[[Rig], None]:
    """Something in the path goes away under I/O and comes back; the client has to finish with its data intact."""

    def body(rig: Rig) -> None:
        directory, count = f"restart{version}", 16
        with rig.mounted(version):
            job = rig.guest.run_aside(f"churn_write {MOUNT_POINT}/{directory} {count} 1000003", 240)
            try:
                wait_until(lambda: _files(rig, directory) >= 4, 60, "I/O under way")
                crash(rig)
                time.sleep(down_seconds)
                if not job.running():
                    raise LabError("the I/O was over before the restart; nothing was shown")
            finally:
                back(rig)
            job.result()
            rig.guest.check(f"churn_check {MOUNT_POINT}/{directory}", 120)
            sums = rig.guest.check("cat /tmp/churn.SUMS")
            client = {name: digest for digest, name in (line.split() for line in sums.splitlines())}
            if len(client) != count or client != rig.backend.digests(directory):
                raise LabError("client and server disagree after the restart")
            rig.backend.remove_tree(directory)
            metrics = rig.scrape()
            if metrics:
                no_errors(metrics)

    return body


def _files(rig: Rig, directory: str) -> int:
    try:
        return len(rig.backend.names(directory))
    except (FileNotFoundError, LabError):
        return 0  # not there yet


def _kill_ganesha(rig: Rig) -> None:
    assert isinstance(rig.backend, Ganesha)
    rig.backend.kill()


def _start_ganesha(rig: Rig) -> None:
    rig.backend.start()


def _kill_gateway(rig: Rig) -> None:
    assert rig.gateway
    rig.gateway.kill()


def _end_gateway(rig: Rig) -> None:
    assert rig.gateway
    rig.gateway.terminate()


def _start_gateway(rig: Rig) -> None:
    assert rig.gateway
    rig.gateway.start()


def _stop_nfsd(rig: Rig) -> None:
    assert isinstance(rig.backend, Reference)
    rig.backend.guest.check("nfsd_stop")


def _start_nfsd(rig: Rig) -> None:
    assert isinstance(rig.backend, Reference)
    rig.backend.guest.check("nfsd_start")


def metrics_agree(rig: Rig) -> None:
    """What causewayd counted is what the client did: bytes by chunk list, connections, no errors; promtool is clean."""
    assert rig.gateway
    size, count = 2_000_003, 4
    before = rig.gateway.metrics()
    before.lint()
    with rig.mounted("4.1"):
        rig.guest.check(f"churn_write {MOUNT_POINT}/metrics {count} {size}", 120)
        rig.guest.check(f"churn_check {MOUNT_POINT}/metrics", 120)
        stats = rig.stats()
        after = rig.gateway.metrics()
        after.lint()
        no_errors(after)
        if after.total("causeway_connections") != 1:
            raise LabError(f"causeway_connections is {after.total('causeway_connections')} with one mount")
        if after.total("causeway_connections_total") <= before.total("causeway_connections_total"):
            raise LabError("causeway_connections_total did not count the connection")

        def grown(list_name: str) -> float:
            name = "causeway_rpcrdma_chunk_bytes_total"
            return after.total(name, list=list_name) - before.total(name, list=list_name)

        # The client pushes WRITE payload through Read chunks and gets READ payload in Write chunks. The slack is
        # for XDR padding and for messages other than READ and WRITE that were long enough for a chunk.
        _about("bytes by Read chunks", grown("read"), stats.bytes["server_write"], 16384)
        _about("bytes by Write chunks", grown("write"), stats.bytes["server_read"], 16384)
        _about("bytes by Write and Reply chunks", grown("write") + grown("reply"), stats.xprt["total_rdma_rep"], 16384)
    rig.backend.remove_tree("metrics")


def _about(what: str, counted: float, done: int, slack: int) -> None:
    if abs(counted - done) > slack:
        raise LabError(f"metrics: {what}: causewayd counted {counted:.0f}, the client {done}")


def silent_peer(rig: Rig) -> None:
    """An idle client is asked whether it is there, and stays connected as long as it is. When its cable is pulled nothing says so:
    the connection ends by its silence, and the client goes on where it was once the cable is back."""
    assert rig.gateway
    gateway = rig.gateway
    asked, silent = "causeway_roce_keepalives_total", "causeway_roce_retries_exhausted_total"

    def silences() -> float:
        return gateway.metrics().total(silent, kind="keepalive")

    with rig.mounted("3"):  # NFSv4 would renew its lease meanwhile
        rig.guest.check(f"echo before >{MOUNT_POINT}/silent && sync")
        before = gateway.metrics().total(asked)
        wait_until(lambda: gateway.metrics().total(asked) > before, 60, "a keep-alive to the idle client")
        time.sleep(5)
        if silences() or gateway.metrics().total("causeway_connections") != 1:
            raise LabError("an idle client that answers was given up")
        rig.guest.check("loss_on 100")
        try:
            wait_until(lambda: silences() == 1, 240, "the end of a silent connection", interval=1)
        finally:
            rig.guest.check("loss_off")
        if gateway.connections():
            raise LabError("the connection outlived its client")
        rig.guest.check(f"grep -q before {MOUNT_POINT}/silent && echo after >>{MOUNT_POINT}/silent && sync", 180)
    rig.backend.remove_tree("silent")


def _credits(gateway: Gateway, reverse: int) -> None:
    """`causewayctl connections` shows the credits of both directions."""
    (row,) = gateway.connections()
    shown = row["credits_granted"], row["reverse_credits_granted"], row["reverse_calls_in_flight"]
    if shown != (64, reverse, 0):
        raise LabError(f"causewayctl connections: credits granted, reverse, in use: {shown}")


CLIENT = "Linux NFSv4.1 guest"  # in the owner name of the guest under test


def _recall(rig: Rig, name: str) -> None:
    """The client gets a read delegation of the file, the other one writes to it. Before, nothing was called back yet."""
    assert rig.gateway and isinstance(rig.backend, KnfsdTcp)
    gateway, server, client = rig.gateway, rig.backend, rig.guest
    server.guest.check(f"echo first >/export/callback/{name} && chmod 666 /export/callback/{name}")
    path = f"{MOUNT_POINT}/callback/{name}"
    held_open = client.run_aside(
        f"exec 3<{path}; touch /tmp/opened-{name};" f" while [ ! -e /tmp/written-{name} ]; do sleep 0.2; done", 90
    )
    client.check(f"for i in $(seq 200); do [ -e /tmp/opened-{name} ] && exit; sleep 0.1; done; exit 1")
    if not server.delegations(CLIENT):
        raise LabError("the server gave no delegation")
    _credits(gateway, reverse=1)  # the client has asked for the back channel, nothing was answered yet
    before = gateway.metrics()
    returned = rig.stats().operations.get("DELEGRETURN", 0)
    start = time.monotonic()
    server.guest.check(f"echo second >>/second/callback/{name}", 60)
    took = time.monotonic() - start
    client.check(f"touch /tmp/written-{name}")
    held_open.result()
    read = client.check(f"cat {path}")
    if read != "first\nsecond\n":
        raise LabError(f"the first client read {read!r}")
    after = gateway.metrics()
    after.lint()
    no_errors(after)
    if took > 8:  # the lease is 10 s
        raise LabError(f"the second open took {took:.1f} s")
    crossed = [
        after.total(f"causeway_backend_reverse_{what}_total") - before.total(f"causeway_backend_reverse_{what}_total")
        for what in ("calls", "replies", "calls_dropped")
    ]
    if crossed[0] < 1 or crossed[1] != crossed[0] or crossed[2] != 0:
        raise LabError(f"reverse calls, replies and drops: {crossed}")
    _credits(gateway, reverse=16)  # what Linux grants
    returned = rig.stats().operations.get("DELEGRETURN", 0) - returned
    if returned != 1 or any(name in line for line in server.delegations(CLIENT)):
        raise LabError(f"the delegation did not come back (DELEGRETURN sent {returned} times)")


# Proves BIDI-3.2-1, BIDI-3.2-2: with the Linux client, which asks for the back channel in CREATE_SESSION.
def callback(rig: Rig) -> None:
    """The client holds a read delegation; another one, over plain TCP, opens the file for writing. The server's CB_RECALL
    crosses causewayd, the delegation comes back, and the second open goes on without waiting for a lease to run out. Then the
    same over a new connection, for which the client asks anew (BIND_CONN_TO_SESSION)."""
    assert rig.gateway and isinstance(rig.backend, KnfsdTcp)
    gateway, server, client = rig.gateway, rig.backend, rig.guest
    server.guest.check("mkdir -p /export/callback")
    server.mount_itself("/second")
    with rig.mounted("4.1"):
        _recall(rig, "first")
        gateway.kill()
        gateway.start()
        client.check(f"ls {MOUNT_POINT}/callback", 90)
        wait_until(lambda: gateway.metrics().total("causeway_rpcrdma_reverse_credits_granted") > 0, 60, "the back channel again")
        _recall(rig, "second")
    server.guest.check("umount /second", 30)


# Proves BIDI-3.1-2: knfsd would call an NFSv4.0 client back over TCP, where nobody listens; so it gives no delegation, and the files
# are read and written all the same. That it gives one for the same open when it can call back is what `callback` shows.
def no_callback(rig: Rig) -> None:
    """NFSv4.0, whose callbacks do not come over the client's connection: no delegation, no call through causewayd, no harm."""
    assert rig.gateway and isinstance(rig.backend, KnfsdTcp)
    gateway, server, client = rig.gateway, rig.backend, rig.guest
    before = gateway.metrics()
    server.guest.check("mkdir -p /export/callback; echo first >/export/callback/none; chmod 666 /export/callback/none")
    path = f"{MOUNT_POINT}/callback/none"
    with rig.mounted("4.0"):
        held_open = client.run_aside(f"exec 3<{path}; touch /tmp/opened; while [ ! -e /tmp/seen ]; do sleep 0.2; done", 90)
        client.check("for i in $(seq 200); do [ -e /tmp/opened ] && exit; sleep 0.1; done; exit 1")
        states = server.open_states()
        if not any("type: open" in line for line in states):
            raise LabError(f"the server knows of no open file: {states}")
        if any("type: deleg" in line for line in states):
            raise LabError(f"a delegation without a way to call it back: {states}")
        server.guest.check("echo second >>/export/callback/none")
        client.check(f"touch /tmp/seen; echo third >>{path}")
        held_open.result()
        contents = client.check(f"cat {path}"), server.guest.check("cat /export/callback/none")
        if contents != ("first\nsecond\nthird\n",) * 2:
            raise LabError(f"what was written reads {contents}")
    after = gateway.metrics()
    no_errors(after)
    for what in ("calls", "replies"):
        name = f"causeway_backend_reverse_{what}_total"
        if after.total(name) != before.total(name):
            raise LabError(f"{name} went up")


def wiring(kind: str) -> Callable[[Path], None]:
    """The guest's NIC against testpmd icmpecho: small and large pings, and again after the other end came back."""

    def body(logs: Path) -> None:
        nic = Nic(kind, 4500, socket=RUN / "vhost.sock" if kind == "vhost" else None, tap="roce-guest" if kind == "tap" else "")
        if kind == "tap":
            network.add_tap(nic.tap, nic.mtu)
        peer, guest = TestPmd(nic, logs), Guest(nic, logs)
        try:
            peer.start()
            guest.start()
            # -A: the next one when the answer is there, not a second later.
            # icmpecho answers ARP for any address. 4000 bytes fit the MTU of 4500 unfragmented, as RoCE 4096 does.
            pings = (
                f"ping -A -c 3 -W 5 {network.GATEWAY} && ping -A -c 3 -W 5 -s 1400 {network.GATEWAY}"
                f" && ping -A -c 3 -W 5 -s 4400 {network.GATEWAY}"
            )
            guest.check(pings, 60)
            peer.kill()
            peer.start()
            wait_until(
                lambda: guest.run(f"ping -c 1 -W 2 {network.GATEWAY}", 10)[0] == 0,
                30,
                "ping after a restart of the other end",
                interval=0.5,
            )
            guest.check(pings, 60)
        finally:
            guest.stop()
            peer.stop()
            network.remove("roce-guest")

    return body


def _no_errors_counted(rig: Rig) -> None:
    metrics = rig.scrape()
    if metrics:
        no_errors(metrics)
        metrics.lint()


def exercise_cases(wire: Wire) -> list[Case]:
    """The default run has the short ones on one wire; --full has the ten minutes each, too, on both transports."""
    quick = wire.transport not in ("tap", "siw")
    gateway = (_kill_gateway, _start_gateway)
    ganesha = (_kill_ganesha, _start_ganesha)

    def case(name: str, body: Callable[[Rig], None], in_quick: bool) -> Case:
        return Case(f"{name}-{wire.name}", wire, body, in_quick)

    def run(seconds: int, files: int, percent: int = 0, *troubles: exercise.Trouble) -> Callable[[Rig], None]:
        return exercise.exercise(seconds, files, percent, troubles, _no_errors_counted)

    cases = [case("exerciser", run(10, 40), wire.transport != "tap"), case("long-exercise", run(600, 2000), False)]
    if wire.kind != "direct":
        cases.append(case("exerciser-loss", run(5, 5, 1), wire.kind == "gateway" and quick))
    if wire.kind != "reference":
        cases.append(case("exerciser-damage", exercise.damage, quick))
    if wire.kind == "gateway":
        cases += [
            case("exerciser-gateway-crash", run(8, 20, 0, (1 / 3, *gateway)), quick),
            case("long-exercise-loss", run(600, 500, 1), False),
            case("long-exercise-restarts", run(600, 2000, 0, (1 / 3, *gateway), (2 / 3, *ganesha)), False),
            case("long-exercise-loss-restarts", run(600, 200, 1, (1 / 3, *gateway), (2 / 3, *ganesha)), False),
        ]
    return cases


def _no_rig(_rig: Rig) -> None:
    raise AssertionError("a case without a rig")


def wiring_cases() -> list[Case]:
    return [Case(f"wiring-{kind}", None, _no_rig, True, wiring(kind)) for kind in ("vhost", "tap")]


def direct_cases() -> list[Case]:
    """Without causewayd: TCP straight to Ganesha, and the wiring."""
    wire = Wire("direct", "tcp", 0)
    cases = [
        Case(f"nfs{version}-tcp", wire, nfs(version, SMALL + MEDIUM + (LARGE if version == "4.1" else ())), True)
        for version in VERSIONS
    ]
    cases.append(Case("nfs4.1v6-tcp", wire, nfs("4.1", SMALL + MEDIUM, v6=True), True))
    for version in ("4.1", "3"):
        cases.append(
            Case(f"ganesha-restart-nfs{version}-tcp", wire, restart(version, _kill_ganesha, _start_ganesha), version == "4.1")
        )
    return cases + exercise_cases(wire) + wiring_cases()


def reference_cases() -> list[Case]:
    """Without causewayd: RoCE to a kernel NFS/RDMA server."""
    cases: list[Case] = []
    for mtu in (4096, 1024):
        wire = Wire("reference", "tap", mtu)
        for version in VERSIONS:
            cases.append(Case(f"nfs{version}-{wire.name}", wire, nfs(version, SMALL + MEDIUM), mtu == 4096))
            cases.append(
                Case(f"nfs{version}v6-{wire.name}", wire, nfs(version, SMALL + MEDIUM, v6=True), mtu == 4096 and version == "4.1")
            )
        cases.append(Case(f"loss-nfs4.1-{wire.name}", wire, loss("4.1", SMALL + MEDIUM[:1], 50), mtu == 4096))
        cases.append(Case(f"nfsd-restart-nfs4.1-{wire.name}", wire, restart("4.1", _stop_nfsd, _start_nfsd), mtu == 4096))
        if mtu == 4096:
            cases += exercise_cases(wire)
    return cases


def gateway_cases() -> list[Case]:
    """The suite proper. The default run has all of vhost-4096, and NFSv4.1 on tap; --full is everything."""
    cases: list[Case] = []
    for transport in ("vhost", "tap"):
        for mtu in (4096, 1024):
            wire = Wire("gateway", transport, mtu)
            main = (transport, mtu) == ("vhost", 4096)

            def add(name: str, body: Callable[[Rig], None], quick: bool, wire: Wire = wire) -> None:
                cases.append(Case(f"{name}-{wire.name}", wire, body, quick))

            add("metrics", metrics_agree, main)
            add("silent-peer", silent_peer, False)
            if (transport, mtu) == ("tap", 4096):
                add("attack", attack.attack, True)
                add("flood", attack.flood, False)
            add("churn", churn.churn(200, 55), main)
            add("long-churn", churn.churn(2000, 550), False)
            add("mount-churn", mount_churn.mount_churn(25, 550), False)
            for version in VERSIONS:
                with_large = version == "4.1" and main
                add(
                    f"nfs{version}",
                    nfs(version, SMALL + MEDIUM + (LARGE if with_large else ())),
                    main or (transport == "tap" and version == "4.1"),
                )
                if not with_large:
                    add(f"large-nfs{version}", nfs(version, LARGE), False)
            for version in VERSIONS:
                add(f"nfs{version}v6", nfs(version, SMALL + MEDIUM, v6=True), main and version == "4.1")
            for version in VERSIONS:
                if main:
                    add(f"long-loss-nfs{version}", loss(version, SMALL + MEDIUM), False)
                add(
                    f"loss-nfs{version}",
                    loss(version, SMALL + MEDIUM[:1], 50, more=exercise.IMPATIENT),
                    main and version == "4.1",
                )
                add(f"ganesha-restart-nfs{version}", restart(version, _kill_ganesha, _start_ganesha), main and version == "4.1")
                add(f"gateway-crash-nfs{version}", restart(version, _kill_gateway, _start_gateway), main and version == "4.1")
                add(f"gateway-restart-nfs{version}", restart(version, _end_gateway, _start_gateway), False)
            if (transport, mtu) == ("tap", 4096):
                for name, body in stall.bodies():
                    add(name, body, False)
            if mtu == 4096:
                cases += exercise_cases(wire)
    for transport in ("vhost", "tap"):
        for mtu in (4096, 1024):
            wire = Wire("gateway", transport, mtu, "knfsd")
            if mtu == 4096:
                cases.append(Case(f"callback-{wire.name}", wire, callback, transport == "vhost"))
                if transport == "vhost":
                    cases.append(Case(f"no-callback-{wire.name}", wire, no_callback, True))
            for version in VERSIONS:
                # The server's memory is that of its guest.
                for v6 in (False, True):
                    name = f"nfs{version}{'v6' if v6 else ''}-{wire.name}"
                    cases.append(Case(name, wire, nfs(version, SMALL + MEDIUM, v6)))
    return (
        cases
        + iwarp_cases()
        + verbs_cases()
        + nic_cases()
        + newer_kernel_cases()
        + kerberos_cases()
        + beside_cases()
        + wiring_cases()
    )


def iwarp_cases() -> list[Case]:
    """The second wire: the client's RDMA device is siw, and TCP carries it."""
    cases: list[Case] = []
    wire = Wire("gateway", "siw", 0)

    def add(name: str, body: Callable[[Rig], None], quick: bool = False, wire: Wire = wire) -> None:
        cases.append(Case(f"{name}-{wire.name}", wire, body, quick))

    add("metrics", metrics_agree)
    add("churn", churn.churn(200, 55))
    add("attack", attack.attack, True)
    add("flood", attack.flood)
    for version in VERSIONS:
        add(f"nfs{version}", nfs(version, SMALL + MEDIUM), version == "3")
        add(f"large-nfs{version}", nfs(version, LARGE))
        add(f"nfs{version}v6", nfs(version, SMALL + MEDIUM, v6=True))
        add(f"loss-nfs{version}", loss(version, SMALL + MEDIUM[:1], 50))
        add(f"ganesha-restart-nfs{version}", restart(version, _kill_ganesha, _start_ganesha))
        add(f"gateway-crash-nfs{version}", restart(version, _kill_gateway, _start_gateway), version == "4.1")
        add(f"gateway-restart-nfs{version}", restart(version, _end_gateway, _start_gateway))
    cases += exercise_cases(wire)
    behind = Wire("gateway", "siw", 0, "knfsd")
    add("callback", callback, wire=behind)
    for version in VERSIONS:
        add(f"nfs{version}", nfs(version, SMALL + MEDIUM), wire=behind)
        add(f"nfs{version}v6", nfs(version, SMALL + MEDIUM, v6=True), wire=behind)
    return cases


def nfs_over_verbs(version: str, sizes: tuple[int, ...], v6: bool = False) -> Callable[[Rig], None]:
    """The workload, over rdma-core; no connection gives its client access to memory, as the device itself says."""

    def body(rig: Rig) -> None:
        assert isinstance(rig.gateway, GatewayGuest)
        with rig.mounted(version, v6):
            workload.everything(rig, f"verbs{version}{'v6' if v6 else ''}", sizes)
            metrics = rig.gateway.metrics()
            no_errors(metrics)
            metrics.lint()
            there = metrics.total("causeway_verbs_connections")
            exposed = metrics.total("causeway_verbs_exposed_connections")
            # siw (read in 6.1, siw_query_qp) says of each queue pair that peers may read and write, whatever it was told. What it looks
            # at is the registered memory's rights: `attack`.
            if there == 0 or exposed != (there if rig.wire.verbs == "siw0" else 0):
                raise LabError(f"{there:g} connections over rdma-core, {exposed:g} of them exposed")
            failed = {
                status: count
                for status, count in metrics.by_label("causeway_verbs_completions_total", "status").items()
                if count and status not in ("success", "work_request_flushed")
            }
            if failed:
                raise LabError(f"work failed: {failed}")
            if "path MTU" in rig.gateway.log():
                raise LabError("the log says a path MTU that only the device knows")

    return body


def silent_peer_of_verbs(rig: Rig) -> None:
    """The same as silent_peer() where an RDMA device has the connection: what asks the client is done when it is there, and it stays."""
    assert rig.gateway
    gateway = rig.gateway

    def done() -> float:
        return gateway.metrics().total("causeway_verbs_completions_total", status="success")

    def silences() -> float:
        return gateway.metrics().total("causeway_verbs_queue_pairs_ended_total", cause="peer_silent")

    with rig.mounted("3"):
        rig.guest.check(f"echo before >{MOUNT_POINT}/silent && sync")
        time.sleep(5)
        before = done()
        wait_until(lambda: done() > before, 60, "the answer of the idle client", interval=1)
        time.sleep(5)
        if silences() or gateway.metrics().total("causeway_verbs_connections") != 1:
            raise LabError("an idle client that answers was given up")
        rig.guest.check("loss_on 100")
        try:
            wait_until(lambda: silences() == 1, 240, "the end of a silent connection", interval=1)
        finally:
            rig.guest.check("loss_off")
        rig.guest.check(f"grep -q before {MOUNT_POINT}/silent && echo after >>{MOUNT_POINT}/silent && sync", 180)
    rig.backend.remove_tree("silent")


def verbs_cases() -> list[Case]:
    """The third wire: causewayd in a guest of its own, on that kernel's RDMA device. These guests are emulated, and take minutes: the
    default run has one of the two devices, with one core, and no client role."""
    cases: list[Case] = []
    for transport in ("verbs-rxe", "verbs-siw"):
        wire = Wire("gateway", transport, 0)
        main = transport == "verbs-rxe"
        for version in VERSIONS:
            cases.append(
                Case(f"nfs{version}-{wire.name}", wire, nfs_over_verbs(version, SMALL + MEDIUM), main and version == "4.1")
            )
            cases.append(Case(f"nfs{version}v6-{wire.name}", wire, nfs_over_verbs(version, SMALL + MEDIUM, v6=True)))
        cases.append(Case(f"gateway-crash-nfs4.1-{wire.name}", wire, restart("4.1", _kill_gateway, _start_gateway)))
        cases.append(Case(f"silent-peer-{wire.name}", wire, silent_peer_of_verbs))
        cases.append(Case(f"attack-{wire.name}", wire, attack.attack, main))
        cases.append(Case(f"flood-{wire.name}", wire, attack.flood, main))
        cases.append(Case(f"exerciser-{wire.name}", wire, exercise.exercise(10, 40, check=_no_errors_counted)))
        cases.append(Case(f"load-{wire.name}", wire, rdma_load.load))
        cases += rdma_device_cases(wire)
        several = Wire("gateway", transport, 0, cores=2)
        cases.append(Case(f"cores-{several.name}", several, rdma_device.cores))
        cases.append(Case(f"exerciser-{several.name}", several, exercise.exercise(10, 40, check=_no_errors_counted)))
        cases.append(Case(f"attack-{several.name}", several, attack.attack))
        cases += rdma_device_cases(several)
        behind = Wire("gateway", transport, 0, "knfsd")
        for version in VERSIONS:
            cases.append(Case(f"nfs{version}-{behind.name}", behind, nfs_over_verbs(version, SMALL + MEDIUM)))
    return cases


def rdma_device_cases(wire: Wire) -> list[Case]:
    """The device goes and comes back under a client that writes."""
    return [
        Case(f"device-removed-nfs4.1-{wire.name}", wire, restart("4.1", rdma_device.remove, rdma_device.add)),
        Case(f"port-down-nfs4.1-{wire.name}", wire, restart("4.1", rdma_device.port_down, rdma_device.port_up)),
    ]


def nic_cases() -> list[Case]:
    """Causewayd in a guest of its own, on a NIC that DPDK has."""
    cases: list[Case] = []
    for model in nic.MODELS:
        wire = Wire("gateway", f"vfio-{model}", 4096)
        cases += [
            Case(f"cores-{wire.name}", wire, nic.cores, model == "virtio"),
            Case(f"nfs4.1-{wire.name}", wire, nfs("4.1", SMALL + MEDIUM[:3])),
            Case(f"cable-nfs4.1-{wire.name}", wire, restart("4.1", nic.pull_cable, nic.put_cable_back)),
            Case(f"exerciser-{wire.name}", wire, exercise.exercise(10, 40, check=_no_errors_counted)),
        ]
        wire = Wire("gateway", f"vfio-{model}", 4096, jumbo=True)
        cases.append(Case(f"nfs4.1-{wire.name}", wire, nic.jumbo))
    return cases


def newer_kernel_cases() -> list[Case]:
    """A second client kernel. The exerciser has all four versions of NFS mounted at once; the default run has the newest one."""
    cases: list[Case] = []
    wire = Wire("gateway", "vhost", 4096, kernel=image.NEWER)

    def add(name: str, body: Callable[[Rig], None], quick: bool = False) -> None:
        cases.append(Case(f"{name}-{wire.name}", wire, body, quick))

    add("exerciser", exercise.exercise(10, 40, check=_no_errors_counted))
    add("exerciser-loss", exercise.exercise(5, 5, 1, check=_no_errors_counted))
    for version in VERSIONS:
        add(f"nfs{version}", nfs(version, SMALL + MEDIUM), version == "4.2")
        add(f"nfs{version}v6", nfs(version, SMALL + MEDIUM, v6=True))
        add(f"gateway-crash-nfs{version}", restart(version, _kill_gateway, _start_gateway))
    return cases


# Bytes of a WRITE beside 4 loops of small calls, and beside 16. The guest computes checksums and encrypts in software, emulated, on
# one core. When small calls use up the 32 numbers of Ganesha's window while it does so for a WRITE, it does not send that but
# encodes it anew, under a new number. With krb5i and 16 loops a WRITE of 1 MiB takes 150 to 250 numbers each time, and is never sent.
# With 4 loops it is sent more than 32 numbers late on some machines, and Ganesha drops it: 2 to 9 time-outs, whatever the gateway.
# With these sizes WRITEs come up to 31 numbers late, and all in the end.
WSIZES = {"krb5": (1 << 20, 1 << 20), "krb5i": (1 << 18, 1 << 16), "krb5p": (1 << 16, 1 << 15)}


def with_kerberos(version: str, flavor: str, writers: int, kib: int, loops: int) -> Callable[[Rig], None]:
    """The workload, then large WRITEs at full credits with small calls between them. A server drops a call whose sequence number has
    fallen out of its window without a word, and the client gets over that only by a time-out and a new connection: neither
    may have happened."""

    def body(rig: Rig) -> None:
        directory = f"{flavor}-nfs{version}"
        wsize = WSIZES[flavor][0 if loops <= 4 else 1]
        with rig.mounted(version, more=f",sec={flavor},actimeo=0,wsize={wsize}"):
            mounted = rig.guest.check(f"grep ' {MOUNT_POINT} ' /proc/mounts")
            if f",sec={flavor}," not in mounted:
                raise LabError(f"mounted otherwise than asked: {mounted.strip()}")
            rig.guest.check(f"mkdir {MOUNT_POINT}/{directory}")
            workload.files(rig, f"{directory}/files", SMALL + MEDIUM[:2])
            workload.changes(rig, f"{directory}/changes")
            rig.guest.check("count_encodings_anew")
            try:
                rig.guest.check(f"mixed_load {MOUNT_POINT}/{directory}/mixed {writers} {kib} {loops}", 300)
            except LabError as error:
                anew = rig.guest.check("encodings_anew").strip()
                raise LabError(f"{error}; the client encoded {anew} calls anew") from error
            stats = rig.stats()
            (rig.logs / f"mountstats-{directory}.log").write_text(rig.guest.check("cat /proc/self/mountstats"))
            unanswered = stats.xprt["rpcsends"] - stats.xprt["rpcreceives"]
            if stats.xprt["connect_count"] != 1 or stats.timeouts != 0 or unanswered != 0:
                raise LabError(
                    f"{stats.xprt['connect_count']} connections, {stats.timeouts} time-outs, {unanswered} calls without an answer"
                )
            _no_errors_counted(rig)
        rig.backend.remove_tree(directory)

    return body


def kerberos_cases() -> list[Case]:
    """Integrity and privacy in the default run, with versions of NFS that differ; --full has every pair, and more at once."""
    cases: list[Case] = []
    wire = Wire("gateway", "exception", 4096, kerberos=True)
    for flavor, quick in zip(kerberos.FLAVORS, ("", "3", "4.2")):
        for version in VERSIONS:
            cases.append(
                Case(f"{flavor}-nfs{version}-{wire.name}", wire, with_kerberos(version, flavor, 4, 4096, 4), version == quick)
            )
        cases.append(Case(f"{flavor}-long-nfs4.1-{wire.name}", wire, with_kerberos("4.1", flavor, 16, 8192, 16)))
        cases.append(
            Case(
                f"{flavor}-exerciser-{wire.name}",
                wire,
                exercise.exercise(10, 40, check=_no_errors_counted, more=f",sec={flavor}"),
            )
        )
    return cases


def beside_cases() -> list[Case]:
    """The gateway and the kernel at one address."""
    cases: list[Case] = []
    for wire in beside.WIRES:
        cases += [
            Case(f"one-address-nfs3-{wire.name}", wire, beside.one_address(False), wire.transport == "af_xdp"),
            Case(f"one-address-nfs3v6-{wire.name}", wire, beside.one_address(True)),
            Case(f"gateway-crash-nfs3-{wire.name}", wire, restart("3", _kill_gateway, _start_gateway)),
        ]
        if wire.transport == "af_xdp":
            cases.append(Case(f"detach-{wire.name}", wire, beside.detach, True))
    return cases + [
        Case("failover", None, _no_rig, False, failover.failover),
        Case("failover-host", None, _no_rig, False, failover.failover_host),
        Case("disorder", None, _no_rig, False, disorder.disorder(image.USUAL)),
        Case(f"disorder-linux{image.NEWER}", None, _no_rig, False, disorder.disorder(image.NEWER)),
        Case("clock-step-in-kernel", None, _no_rig, False, clock_step.clock_step),
        Case("isolation-in-kernel", None, _no_rig, False, isolation.isolation),
        Case("figures-four-ways", None, _no_rig, False, figures.figures()),
        Case("figures-four-ways-erms", None, _no_rig, False, figures.figures(CPU)),
        *(Case(f"idle-{wire}", None, _no_rig, False, idle.idle(wire)) for wire in idle.WIRES),
    ]
