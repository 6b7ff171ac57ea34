"""Several poll cores: every core serves, whichever received the frame, and all that is said of the gateway is said of all."""

import os
import subprocess
import sys
import time
from pathlib import Path

from drill import PORT, BackendInTrouble, expect_intact, gateway_before
from harness import CPUS, GATEWAY_CPU, Box, Gateway, LabError, Skip, expect, expect_equal, free_tcp_address
from memif_peer import MemifPeer

# Our client draws its QPNs, so that cores and queues are dealt by chance: with so many nobody goes without.
CONNECTIONS = 40


def two_cores(box: Box, **options: str) -> Gateway:
    if len(CPUS) < 2:
        raise Skip("takes two CPUs")
    gateway = box.gateway(cpus=f"{CPUS[0]}, {CPUS[1]}", main_cpu=str(CPUS[0]), **options)
    gateway.start_ready()
    return gateway


def by_core(gateway: Gateway, name: str) -> list[float]:
    metrics = gateway.metrics()
    return [metrics.total(name, lcore=str(cpu)) for cpu in CPUS[:2]]


def both_serve(box: Box) -> None:
    gateway = two_cores(box)
    for operation, size in (("echo", 64), ("source", 1 << 20), ("sink", 1 << 20)):
        load = box.load(operation=operation, size=size, connections=CONNECTIONS, window=2, seconds=3)
        load.wait_connected()
        time.sleep(1)
        connections = by_core(gateway, "causeway_lcore_connections")
        expect_equal("connections", sum(connections), CONNECTIONS)
        expect(min(connections) > 0, f"connections by core: {connections}")
        rows = box.ctl(gateway, "connections", "--json")
        for cpu in CPUS[:2]:
            expect(f'"lcore": {cpu}' in rows or f'"lcore":{cpu}' in rows, f"no connection of CPU {cpu} in {rows}")
        report = load.result()
        expect_equal("wrong answers", report["wrong"], 0)
        expect_equal("connections lost", report["lost"], 0)
    # A memif link has one queue: what is for the other core is handed over, and what that core sends goes back the same way.
    expect_equal("ports with one queue", gateway.metrics().total("causeway_port_info", steering="software"), 1)
    handed = by_core(gateway, "causeway_lcore_frames_handed_total")
    expect(handed[0] > 0 and handed[1] == 0, f"frames handed over by core: {handed}")
    expect(min(by_core(gateway, "causeway_lcore_polls_total")) > 0, "a core that never turned")
    gateway.terminate()


def one_limit(box: Box) -> None:
    gateway = two_cores(box, listener="connections_max = 5")
    load = box.load(connections=8, seconds=1)
    expect_equal("exit status of the load", load.finish(30), 1)
    expect("5 of 8 connections" in load.output(), load.tail())
    expect_equal("refused by the limit", gateway.metrics().total("causeway_connections_refused_total", reason="limit"), 3)
    gateway.terminate()


def both_drain(box: Box) -> None:
    gateway = two_cores(box, extra="[limits]\nconnections_max = 64")
    load = box.load("--reconnect", connections=CONNECTIONS, window=4, seconds=8)
    load.wait_connected()
    done = box.run(box.causewayctl, "--socket", gateway.admin, "drain", "start", "--wait", "--timeout", "30", timeout=40)
    expect_equal(f"exit status of drain --wait, which said {done.stdout!r}", done.returncode, 0)
    expect(f"drained: 0 connections left, {CONNECTIONS} ended in order, 0 by force" in done.stdout, done.stdout)
    expect_equal("connections by core", by_core(gateway, "causeway_lcore_connections"), [0, 0])
    box.ctl(gateway, "drain", "stop")
    report = load.result()
    expect_equal("calls failed, answers wrong", (report["failed"], report["wrong"]), (0, 0))
    gateway.terminate()


def link_flaps(box: Box) -> None:
    """The driver takes its rings away from both cores."""
    gateway = two_cores(box, idle="spin")
    end = time.monotonic() + 4
    links = 0
    while time.monotonic() < end:
        with MemifPeer(box.directory / "link.sock"):
            links += 1
    expect(links > 50, f"only {links} links came about")
    expect_equal("wrong answers of a load afterwards", box.load(connections=4, seconds=1).result()["wrong"], 0)
    gateway.terminate()


def killed_load(box: Box) -> None:
    # The dead and the living have places side by side for a while.
    gateway = two_cores(box, extra=f"[limits]\nconnections_max = {2 * CONNECTIONS}")
    load = box.load(operation="source", size=262144, connections=CONNECTIONS, seconds=60)
    load.wait_connected()
    time.sleep(0.5)
    load.kill()
    report = box.load(connections=CONNECTIONS, seconds=2).result()
    expect_equal("wrong answers", report["wrong"], 0)
    gateway.terminate()


SHARES_CASE = "sections share the rate of a listener by their weights, whichever poll cores they are on"
SECTIONS = """
[[client]]
name = "light"
prefixes = ["10.9.0.0/24"]
[[client]]
name = "heavy"
prefixes = ["10.9.1.0/24"]
weight = 3
"""


def shares_between_cores(box: Box) -> None:
    """One connection of a section with three times the weight is on one core, eight of another section are on both."""
    port = f'[[port]]\ndevice = "{box.device("server", "heavy", 1)}"\nmtu = 4500\naddresses = ["10.9.1.1/24"]\n'
    gateway = two_cores(box, listener="calls_per_second = 2000", extra=SECTIONS + port)
    light = box.load(name="light", connections=8, window=8, seconds=12)
    light.wait_connected()
    heavy = box.load("--device", box.device("client", "heavy"), name="heavy", connections=1, window=16, seconds=9, network=1)
    heavy.wait_connected()

    def calls() -> list[float]:
        metrics = gateway.metrics()
        return [metrics.total("causeway_client_calls_total", client=client) for client in ("light", "heavy")]

    time.sleep(1)
    before = calls()
    time.sleep(5)
    light_calls, heavy_calls = (after - was for was, after in zip(before, calls()))
    share = heavy_calls / (light_calls + heavy_calls)
    expect(0.68 < share < 0.82, f"the heavy section had {share:.2f} of {light_calls + heavy_calls:.0f} calls, 0.75 is its share")
    for load in (light, heavy):
        report = load.result()
        expect_equal("wrong answers, failed calls", (report["wrong"], report["failed"]), (0, 0))
    gateway.terminate()


QUEUES_CASE = "two poll cores have a queue each where the device has two, and hand over what came to the wrong one"
OWN_NETWORK = "CAUSEWAY_OPS_OWN_NETWORK"
RING = "framesz=8192,blocksz=65536,framecnt=512"


def two_queues(box: Box) -> None:
    """The kernel deals frames to the sockets of a fanout by their addresses and ports, whatever queue pair they are for."""
    if os.environ.get(OWN_NETWORK) is None:
        run_in_own_network(box, QUEUES_CASE)
        return
    for words in ("link set lo up", "link add gw type veth peer name cl", "link set gw mtu 4500 up", "link set cl mtu 4500 up"):
        subprocess.run(["ip", *words.split()], check=True, timeout=10)
    gateway = two_cores(box, device=f"net_af_packet0,iface=gw,qpairs=2,{RING}", dataplane="memory_mb = 640")
    load = box.load("--device", f"net_af_packet0,iface=cl,{RING}", connections=CONNECTIONS, window=4, seconds=2)
    report = load.result()
    expect_equal("wrong answers", report["wrong"], 0)
    expect_equal("connections made, lost", (report["connected"], report["lost"]), (CONNECTIONS, 0))
    handed = by_core(gateway, "causeway_lcore_frames_handed_total")
    expect(min(handed) > 0, f"frames handed over by core: {handed}")
    expect_equal("frames not handed over", sum(by_core(gateway, "causeway_lcore_frames_not_handed_total")), 0)
    # A packet socket takes no rules.
    expect_equal("ports whose frames are dealt by hash", gateway.metrics().total("causeway_port_info", steering="rss"), 1)
    gateway.wait_for_line(r"the driver net_af_packet takes no rules by queue pair number \(ETH / IPV4 / UDP dst 4791 / RAW: ", 1)
    gateway.terminate()


XDP_CASE = "two poll cores share an AF_XDP socket, beside the kernel"


def one_xdp_socket(box: Box) -> None:
    """A veth has no combined channels, so DPDK 22.11 makes one socket of it: the first core hears all frames, and hands over what is for
    the other one. The kernel answers for the same address."""
    if os.environ.get(OWN_NETWORK) is None:
        run_in_own_network(box, XDP_CASE)
        return
    queues = "numrxqueues 1 numtxqueues 1"
    for words in (
        "link set lo up",
        f"link add gw {queues} type veth peer name cl {queues}",
        "link set gw mtu 2200 up",
        "link set cl mtu 2200 up",
        "address add 10.9.0.1/24 dev gw",
    ):
        subprocess.run(["ip", *words.split()], check=True, timeout=10)
    gateway = box.gateway(
        cpus=f"{CPUS[0]}, {CPUS[1]}", main_cpu=str(CPUS[0]), device="net_af_xdp0,iface=gw", port_extra="beside_kernel = true"
    )
    config = box.directory / "gateway.toml"
    text = config.read_text().replace("mtu = 4500", "mtu = 2200")
    config.write_text("\n".join(line for line in text.splitlines() if not line.startswith("addresses")) + "\n")
    gateway.start_ready()
    load = box.load(
        "--device",
        f"net_af_packet0,iface=cl,{RING}",
        "--path-mtu",
        2048,
        operation="source",
        size=20_000,
        connections=CONNECTIONS,
        window=4,
        seconds=3,
    )
    load.wait_connected()
    busy = by_core(gateway, "causeway_lcore_connections")
    report = load.result()
    expect_equal("wrong answers", report["wrong"], 0)
    expect_equal("connections made, lost", (report["connected"], report["lost"]), (CONNECTIONS, 0))
    expect(min(busy) > 0, f"connections by core: {busy}")
    expect_equal("ports with one queue", gateway.metrics().total("causeway_port_info", steering="software"), 1)
    handed = by_core(gateway, "causeway_lcore_frames_handed_total")
    expect(handed[0] > 0 and handed[1] == 0, f"frames handed over by core: {handed}")
    expect_equal("frames not handed over", sum(by_core(gateway, "causeway_lcore_frames_not_handed_total")), 0)
    gateway.terminate()


def run_in_own_network(box: Box, name: str) -> None:
    """The case again, by a process that has a network namespace to itself."""
    if os.geteuid() != 0:
        raise Skip("takes root")
    done = subprocess.run(
        ["unshare", "--net", sys.executable, str(Path(__file__).with_name("run.py")), str(box.build), "-k", name],
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ, **{OWN_NETWORK: "1"}),
        check=False,
    )
    if done.returncode != 0:
        raise LabError(done.stdout + done.stderr)


IWARP_CASE = "iWARP has a poll core of its own, and RoCE the other"


def iwarp_apart(box: Box) -> None:
    if len(CPUS) < 2:
        raise Skip("takes two CPUs")
    port = free_tcp_address().rpartition(":")[2]
    listener = f'[[listener]]\nname = "tcp"\ntransport = "iwarp"\naddress = "127.0.0.1"\nport = {port}\nbackend = "bench"'
    extra = f"{listener}\n[iwarp]\npoll_lcores = [{CPUS[1]}]"
    gateway = box.gateway(cpus=str(CPUS[0]), main_cpu=str(CPUS[0]), extra=extra)
    gateway.start_ready()
    over_roce = box.load(connections=CONNECTIONS, window=2, seconds=4)
    over_roce.wait_connected()
    over_tcp = box.iwarp_load(port, "--connections", 10, "--window", 2, "--op", "echo", "--seconds", 3)
    over_tcp.wait_connected()
    expect_equal("connections by core", by_core(gateway, "causeway_lcore_connections"), [CONNECTIONS, 10])
    for load in (over_roce, over_tcp):
        expect_intact(load.result())
    handed = by_core(gateway, "causeway_lcore_frames_handed_total")
    expect_equal("frames that went from one core to the other", handed, [0, 0])
    box.ctl(gateway, "reload")
    expect_intact(box.iwarp_load(port, "--connections", 4, "--op", "echo", "--seconds", 1).result())
    gateway.terminate()


def worker_beside_poll_core(box: Box) -> None:
    """Where CPUs are few: poll core, worker and backend on one, in both idle modes. Who has nothing to do leaves it to the others, or calls
    would wait for time slices of the kernel: tests/bench/gateway_bench.py measures it."""
    backend = BackendInTrouble(box)
    for idle in ("sleep", "spin"):
        gateway = gateway_before(box, backend.address, idle=idle, dataplane=f"worker_lcores = [{GATEWAY_CPU}]")
        expect_intact(box.load("--port", PORT, operation="echo", connections=4, window=4, seconds=2).result())
        gateway.terminate()
    backend.close()


CASES = [
    ("a worker on the CPU of its poll core serves", worker_beside_poll_core),
    ("two cores drain together", both_drain),
    ("two poll cores both serve, and hand over what is for the other", both_serve),
    ("two poll cores keep one limit of connections", one_limit),
    ("a memif link that comes and goes costs two poll cores nothing", link_flaps),
    ("two poll cores end the connections of a killed client, and serve the next", killed_load),
    (SHARES_CASE, shares_between_cores),
    (IWARP_CASE, iwarp_apart),
    (QUEUES_CASE, two_queues),
    (XDP_CASE, one_xdp_socket),
]
# The first spins, the second measures.
ALONE = ["a memif link that comes and goes costs two poll cores nothing", SHARES_CASE]
