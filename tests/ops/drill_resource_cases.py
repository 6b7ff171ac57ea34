"""Drills: descriptors, queue pairs, buffers and memory run out; a link that flaps under load."""

import os
import re
import resource
import subprocess
import time
from pathlib import Path

from cores_cases import OWN_NETWORK, RING, run_in_own_network
from drill import PORT, BackendInTrouble, Drill, Resources, expect_back_to, expect_intact, gateway_before
from harness import Box, Load, expect, expect_equal
from lab.daemon import wait_until

REFUSED = "causeway_connections_refused_total"


def _beyond(box: Box, *words: object) -> Load:
    """Four clients, and after a second four more, which try until they are taken."""
    load = box.load("--reconnect", "--connections", "4, 1s=8", *words, window=4, seconds=6, connections=None)
    load.wait_connected()
    return load


def descriptors_run_out(box: Box) -> None:
    """Each client of a TCP backend takes a descriptor. Those who find none are refused; those who have one notice nothing."""
    backend = BackendInTrouble(box)
    gateway = gateway_before(box, backend.address)
    load = _beyond(box, "--port", PORT)
    drill = Drill(box, gateway)
    used = int(gateway.metrics().total("process_open_fds"))
    _, hard = resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (used + 2, hard))
    wait_until(lambda: gateway.metrics().total("process_max_fds") == used + 2, 5, "metrics that are newer")
    during = gateway.metrics()
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (used - 4, hard))
    gateway.wait_for_line("Too many open files", 10)
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (hard, hard))
    wait_until(lambda: gateway.metrics().total("causeway_connections") == 8, 10, "those who were refused are taken")
    report = load.result()
    expect_intact(report)
    # One that comes before the lack is known connects, and is disconnected when its backend connection cannot be made.
    expect_equal("connections made and not lost", report["connected"] - report["lost"], 8)
    expect_equal(
        "connections lost while they had a backend",
        gateway.metrics().total("causeway_connections_closed_total", reason="failed_backend"),
        0,
    )
    drill.expect(r"warning backend tcp .*: cannot connect: Too many open files", "FileDescriptorsLow", during)
    expect(gateway.metrics().total(REFUSED, reason="backend") > 0, "nobody was refused")
    backend.close()
    gateway.terminate()


def queue_pairs_run_out(box: Box) -> None:
    """More clients than there are queue pairs: those beyond are refused again and again, the others have every answer."""
    gateway = box.gateway(extra="[limits]\nconnections_max = 4\n")
    gateway.start_ready()
    drill = Drill(box, gateway)
    load = _beyond(box)
    wait_until(
        lambda: gateway.metrics().total(REFUSED, reason="limit") >= 12,
        15,
        "clients beyond the limit are refused, again and again",
    )
    expect_equal("connections", gateway.metrics().total("causeway_connections"), 4)
    after = gateway.metrics()
    report = load.result(status=None)
    expect_intact(report)
    expect_equal("connections lost", report["lost"], 0)
    drill.expect(
        r"warning connection from 10\.9\.0\.2 to port \d+ \(backend bench\): refused_limit",
        "ConnectionsRefused",
        after,
        lasting=True,
        moved=((REFUSED, {"reason": "limit"}, 12),),
    )
    gateway.terminate()


def buffers_run_out(box: Box) -> None:
    """Replies of 4 MB for many, and memory for few of them: calls wait for buffers, none fails, and all buffers come back."""
    gateway = box.gateway(credits="4", extra="[limits]\nconnections_max = 16\n", dataplane="memory_mb = 64\nrx_buffers = 2048")
    gateway.start_ready()
    baseline = Resources.of(gateway)
    drill = Drill(box, gateway)
    report = box.load(operation="source", size=4 << 20, connections=12, window=4, seconds=4).result()
    expect_intact(report)
    expect_equal("connections lost", report["lost"], 0)
    drill.expect(r"pool replies runs out of buffers: .*; raise dataplane.memory_mb", "MempoolExhausted")
    expect_back_to(baseline, gateway, slack_mb=64)
    gateway.terminate()


# As few packet buffers as the check of the configuration lets pass: the clients' credits reserve all of them.
FEW_PACKETS = "memory_mb = 64\nrx_buffers = 1536"
EXHAUSTED = "causeway_mempool_exhausted_total"
NO_BUFFER = ("causeway_roce_discards_total", {"reason": "no_buffer"})


def packet_buffers_are_all_reserved(box: Box) -> None:
    """A backend stalls while every credit is used, half of them for large WRITEs: calls wait for their turn to be pulled, and none of them
    takes the buffers by which the others' data come in. Those shares once added up to more than there was, and nothing moved again.
    """
    backend = BackendInTrouble(box)
    gateway = gateway_before(box, backend.address, dataplane=FEW_PACKETS, extra="[limits]\nconnections_max = 32\n")
    baseline = Resources.of(gateway)
    drill = Drill(box, gateway)
    load = box.load(
        "--reconnect", "--port", PORT, "--mix", "echo/4000:1,sink/256k:1", operation=None, connections=32, window=32, seconds=7
    )
    load.wait_connected()
    backend.mode = "stalled"
    wait_until(lambda: gateway.metrics().total("causeway_rpcrdma_read_stalls_total") > 0, 10, "calls that wait to be pulled")
    time.sleep(2)
    calls = gateway.metrics().total("causeway_backend_calls_total")
    backend.mode = "pass"
    wait_until(lambda: gateway.metrics().total("causeway_backend_calls_total") > calls + 1024, 10, "calls after the stall")
    report = load.result()
    expect_intact(report)
    expect_equal("connections lost", report["lost"], 0)
    drill.expect("", moved=(("causeway_rpcrdma_read_stalls_total", {}, 1),))
    expect_equal("requests for a buffer that found none", gateway.metrics().total(EXHAUSTED), 0)
    expect_back_to(baseline, gateway, slack_mb=64)
    gateway.terminate()
    backend.close()


def packet_buffers_run_out(box: Box) -> None:
    """Clients whose path MTU is far below the port's use sixteen buffers where one is reserved, since nobody gets less than one credit, and
    hundreds of calls wait for a slot. Senders of new messages are told to wait until there are buffers again: nothing is lost, nobody is cut
    off."""
    backend = BackendInTrouble(box)
    gateway = gateway_before(
        box,
        backend.address,
        dataplane=FEW_PACKETS,
        credits="1\nreverse_credits = 0",
        tcp_credits="credits = 1\nreverse_credits = 0",
        extra="[limits]\nconnections_max = 184\ncalls_in_flight_max = 32\n",
    )
    baseline = Resources.of(gateway)
    drill = Drill(box, gateway)
    load = box.load(
        "--reconnect",
        "--port",
        PORT,
        "--path-mtu",
        256,
        "--connections",
        "184, 5s=4",
        operation="echo",
        size=3500,
        connections=None,
        window=1,
        seconds=10,
    )
    load.wait_connected()
    wait_until(lambda: gateway.metrics().total(EXHAUSTED, pool="packets") > 100, 10, "buffers run out")
    backend.mode = "stalled"
    time.sleep(1)
    backend.mode = "pass"
    expect_intact(load.result())
    drill.expect(
        r"warning pool packets runs out of buffers: .*; raise dataplane\.rx_buffers",
        "MempoolExhausted",
        moved=((EXHAUSTED, {"pool": "packets"}, 100), (*NO_BUFFER, 1)),
    )
    gateway.wait_for_line(r"info pool packets has buffers again", 15)
    expect_equal("lines about it", gateway.output().count("pool packets runs out"), 1)
    expect_back_to(baseline, gateway, slack_mb=64)
    gateway.terminate()
    backend.close()


def memory_runs_out(box: Box) -> None:
    """The process may have no more memory: it says so in one line and ends, to be started again; the clients find the next one."""
    load = box.load("--reconnect", role="server", connections=4, window=4, seconds=8)
    wait_until((box.directory / "link.sock").exists, 30, "the load's end of the link")
    gateway = box.gateway(role="client", extra="[limits]\nconnections_max = 1024\n", credits="4")
    gateway.start_ready()
    load.wait_connected()
    drill = Drill(box, gateway)
    # Not RLIMIT_AS: the C library has address space in reserve, which it has no memory for yet.
    found = re.search(r"^VmData:\s+(\d+) kB", Path(f"/proc/{gateway.pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    resource.prlimit(gateway.pid, resource.RLIMIT_DATA, (int(found[1]) << 10, resource.RLIM_INFINITY))
    box.run(box.causewayctl, "--socket", gateway.admin, "connections")  # takes room for 1024
    wait_until(lambda: not gateway.alive(), 10, "it ends")
    expect_equal("how it ended", gateway.exit_text(), "signal SIGABRT")
    expect("causewayd: out of memory: ends here" in gateway.output(), gateway.tail())
    drill.expect_down()
    gateway.start_ready()
    expect_intact(load.result())
    gateway.terminate()


FLAP_CASE = "drill: a link of the kernel goes down and up under load"


def link_flaps(box: Box) -> None:
    """The gateway's interface is taken down under load, thrice: calls wait, and nothing is lost but time."""
    if os.environ.get(OWN_NETWORK) is None:
        run_in_own_network(box, FLAP_CASE)
        return
    for words in ("link set lo up", "link add gw type veth peer name cl", "link set gw mtu 4500 up", "link set cl mtu 4500 up"):
        subprocess.run(["ip", *words.split()], check=True, timeout=10)
    gateway = box.gateway(device=f"net_af_packet0,iface=gw,{RING}")
    gateway.start_ready()
    load = box.load("--reconnect", "--device", f"net_af_packet0,iface=cl,{RING}", connections=4, window=4, seconds=7)
    load.wait_connected()
    drill = Drill(box, gateway)
    during = None
    for end in ("gw", "cl", "gw"):
        subprocess.run(["ip", "link", "set", end, "down"], check=True, timeout=10)
        time.sleep(0.3)
        during = gateway.metrics() if gateway.metrics().total("causeway_port_up") == 0 else during
        subprocess.run(["ip", "link", "set", end, "up"], check=True, timeout=10)
        calls = gateway.metrics().total("causeway_backend_calls_total")
        wait_until(
            lambda: gateway.metrics().total("causeway_backend_calls_total") > calls + 20, 10, f"calls after {end} is up again"
        )
    expect_intact(load.result())
    expect(during is not None, "the link was never seen to be down")
    drill.expect(r"link is down", "PortDown", during)
    gateway.terminate()


CASES = [
    ("drill: file descriptors run out under load", descriptors_run_out),
    ("drill: queue pairs run out", queue_pairs_run_out),
    ("drill: buffers for replies run out", buffers_run_out),
    ("drill: packet buffers are all reserved, and the backend stalls", packet_buffers_are_all_reserved),
    ("drill: packet buffers run out", packet_buffers_run_out),
    ("drill: memory runs out under load", memory_runs_out),
    (FLAP_CASE, link_flaps),
]
