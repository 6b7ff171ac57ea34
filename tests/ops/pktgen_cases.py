"""The captures of `causeway-load pktgen`, replayed by DPDK into causewayd: every frame ends under the counters that stand beside it.

net_pcap stands in for the NIC and plays a file into causewayd. What aims at a queue pair needs a client first: it connects over
memif and leaves, and testpmd carries the file from net_pcap to the same memif link.
"""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from harness import GATEWAY_CPU, LOAD_CPU, ROOT, Box, Gateway, Program, Skip, expect, expect_equal
from lab.metrics import Metrics

SERVER = "10.9.0.1"
CLIENT = "10.9.0.2"
ARRIVAL_LIMIT_S = 30
# As many connections at a time as the flood may leave half open.
HALF_OPEN_MAX = 128  # more than a burst: requests are answered at its end, and one that is evicted within it never is
FLOOD_LIMITS = f"""\
[limits]
half_open_max = {HALF_OPEN_MAX}
half_open_max_per_prefix = {HALF_OPEN_MAX}
cm_requests_per_second = 1000000
cm_requests_per_second_per_prefix = 1000000
"""
# The client is gone: nobody acknowledges, and the queue pair shall stay as it is for the length of the case.
PATIENT = "[roce]\nkeepalive_s = 0\n"

# What causewayd says of its own address when it starts, and when the link comes up.
ANNOUNCING = ("causeway_port_arp_packets_total", "causeway_port_nd_packets_total")
ANNOUNCEMENTS_MAX = 2

Counts = list[dict[str, Any]]


def generate(box: Box, profile: str, *words: object) -> tuple[Path, dict[str, Any]]:
    """The capture, and what is written beside it."""
    pcap = box.directory / f"{profile}.pcap"
    done = box.run(box.causeway_load, "pktgen", profile, "--output", pcap, *words)
    expect(done.returncode == 0, f"causeway-load pktgen {profile}: exit status {done.returncode}: {done.stderr.strip()}")
    return pcap, json.loads(pcap.with_suffix(".json").read_text())


def both_addresses() -> list[object]:
    return ["--server", SERVER, "--client", CLIENT]


def _replay(box: Box, pcap: Path, extra: str = "", infinite: bool = False) -> Gateway:
    """causewayd on a port that plays the file; what it answers goes to another file."""
    answers = f",tx_pcap={box.directory}/answers.pcap"
    device = f"net_pcap0,rx_pcap={pcap}" + (answers + ",infinite_rx=1" if infinite else answers)
    gateway = box.gateway(device=device, extra=extra)
    gateway.start_ready()
    return gateway


def _wait_for_frames(gateway: Gateway, frames: float) -> Metrics:
    deadline = time.monotonic() + ARRIVAL_LIMIT_S
    while True:
        metrics = gateway.metrics()
        arrived = metrics.total("causeway_port_packets_total", direction="rx")
        if arrived >= frames:
            return gateway.metrics()  # what the last of them led to has happened too
        expect(time.monotonic() < deadline, f"only {arrived:.0f} of {frames:.0f} frames arrived within {ARRIVAL_LIMIT_S} s")
        time.sleep(0.1)


def _discards(metrics: Metrics) -> float:
    return metrics.total("causeway_roce_discards_total") + metrics.total("causeway_cm_discards_total")


def _expect_moved(before: Metrics | None, after: Metrics, counts: Counts) -> None:
    """Each counter moved as promised, and no frame was discarded or lost under another name."""

    def moved(name: str, **labels: str) -> float:
        return after.total(name, **labels) - (before.total(name, **labels) if before else 0)

    for count in counts:
        have = moved(count["metric"], **count["labels"])
        if before is None and count["metric"] in ANNOUNCING and count["labels"]["direction"] == "tx":
            have -= min(have - count["add"], ANNOUNCEMENTS_MAX)
        expect_equal(f"{count['metric']} {count['labels']}", have, count["add"])
    promised = sum(count["add"] for count in counts if count["metric"].endswith("_discards_total"))
    expect_equal("discards of any reason", _discards(after) - (_discards(before) if before else 0), promised)
    for name in ("causeway_port_rx_errors_total", "causeway_port_rx_missed_total", "causeway_port_rx_no_mbuf_total"):
        expect_equal(name, moved(name), 0)


def one_pass(profile: str, words: list[object], box: Box) -> None:
    pcap, expected = generate(box, profile, *both_addresses(), *words)
    gateway = _replay(box, pcap)
    after = _wait_for_frames(gateway, expected["frames"])
    _expect_moved(None, after, expected["first_pass"])
    gateway.terminate()


def tagged_ipv6(box: Box) -> None:
    pcap, expected = generate(box, "malformed", "--server", "fd09::1", "--client", "fd09::2", "--vlan", 7)
    gateway = box.gateway(
        device=f"net_pcap0,rx_pcap={pcap},tx_pcap={box.directory}/answers.pcap", address="fd09::1/64", port_extra="vlan = 7"
    )
    gateway.start_ready()
    _expect_moved(None, _wait_for_frames(gateway, expected["frames"]), expected["first_pass"])
    gateway.terminate()


def flood(box: Box) -> None:
    pcap, expected = generate(box, "requests", *both_addresses(), "--count", 2000)
    gateway = _replay(box, pcap, extra=FLOOD_LIMITS)
    after = _wait_for_frames(gateway, expected["frames"])
    for count in expected["first_pass"]:
        expect_equal(f"{count['metric']} {count['labels']}", after.total(count["metric"], **count["labels"]), count["add"])
    sent = after.by_label("causeway_cm_messages_total", "type")["rep"]
    repeated = after.by_label("causeway_cm_retransmissions_total", "type")["rep"]
    drops = {reason: count for reason, count in after.by_label("causeway_cm_discards_total", "reason").items() if count}
    expect_equal("answered", sent - repeated, expected["frames"])
    expect_equal("discards", drops, {})
    expect_equal("evicted", after.total("causeway_connections_total", result="evicted"), expected["frames"] - HALF_OPEN_MAX)
    expect_equal("half open", after.total("causeway_connections_half_open"), HALF_OPEN_MAX)
    expect_equal("discards of packets", after.total("causeway_roce_discards_total"), 0)
    gateway.terminate()


def endless_noise(box: Box) -> None:
    """The file in a loop, as fast as it goes; a scrape falls somewhere into a pass."""
    pcap, expected = generate(box, "noise", *both_addresses(), "--count", 200)
    gateway = _replay(box, pcap, infinite=True)
    metrics = _wait_for_frames(gateway, 20 * expected["frames"])
    frames = metrics.total("causeway_port_packets_total", direction="rx")
    passes = frames // expected["frames"]
    for count in expected["further_pass"]:
        have = metrics.total(count["metric"], **count["labels"])
        # Answers to ARP leave with the burst that asked, or with the next one.
        slack = 32 if count["labels"].get("direction") == "tx" else 0
        expect(
            passes * count["add"] - slack <= have <= (passes + 1) * count["add"] + slack,
            f"{count['metric']} {count['labels']}: {have:.0f} in {passes:.0f} passes of {count['add']}",
        )
    gateway.terminate()


def _testpmd() -> str:
    """Where Debian's package puts it, or unpacked by the interop lab."""
    unpacked = Path(os.environ.get("CAUSEWAY_CACHE", "/var/cache/causeway-tests")) / "testpmd/usr/bin/dpdk-testpmd"
    testpmd = shutil.which("dpdk-testpmd") or (str(unpacked) if unpacked.exists() else None)
    if testpmd is None:
        raise Skip("there is no dpdk-testpmd (package dpdk)")
    return testpmd


def _carry(box: Box, pcap: Path, gateway: Gateway, frames: float) -> Metrics:
    """testpmd takes the frames from the file to causewayd's link; returns the metrics when `frames` more have arrived."""
    before = gateway.metrics().total("causeway_port_packets_total", direction="rx")
    argv = [
        _testpmd(),
        "--no-huge",
        "-m",
        "256",
        "--no-pci",
        "--lcores",
        f"0@{LOAD_CPU},1@{LOAD_CPU}",
        "--no-telemetry",
        "--file-prefix",
        f"carry{time.monotonic_ns()}",
        "--vdev",
        f"net_pcap0,rx_pcap={pcap},tx_pcap={box.directory}/answers.pcap",
        "--vdev",
        box.device("client"),
        "--",
        "--auto-start",
        "--no-flush-rx",
        "--stats-period=1",
        "--total-num-mbufs=4096",
        "--mbuf-size=9216",
        "--forward-mode=io",
        "--no-mlockall",
        "--rxd=1024",
        "--txd=1024",
    ]
    carrier = Program("testpmd", argv, box.directory / "testpmd.log", box.env)
    box.programs.append(carrier)
    carrier.start()
    metrics = _wait_for_frames(gateway, before + frames)
    carrier.stop(15)
    box.programs.remove(carrier)
    return metrics


def _provisioned(box: Box) -> tuple[Gateway, Path]:
    """A gateway with a connection whose client has gone."""
    _testpmd()
    gateway = box.gateway(extra=PATIENT, credits="64")
    gateway.start_ready()
    numbers = box.directory / "provisioned.json"
    done = box.run(
        box.causeway_load,
        "pktgen",
        "provision",
        "--device",
        box.device("client"),
        "--address",
        f"{CLIENT}/24",
        "--mtu",
        4500,
        "--lcore",
        LOAD_CPU,
        "--server",
        SERVER,
        "--output",
        numbers,
        timeout=60,
    )
    expect(done.returncode == 0, f"provision: exit status {done.returncode}: {done.stderr.strip()}")
    row = box.ctl_json(gateway, "connections")["connections"][0]
    expect_equal("the queue pair", row["local_qpn"], json.loads(numbers.read_text())["qpn"])
    return gateway, numbers


def malformed_at_queue_pair(box: Box) -> None:
    gateway, numbers = _provisioned(box)
    pcap, expected = generate(box, "malformed", "--provisioned", numbers)
    before = gateway.metrics()
    after = _carry(box, pcap, gateway, expected["frames"])
    _expect_moved(before, after, expected["first_pass"])
    gateway.terminate()


def sends_to_queue_pair(box: Box) -> None:
    gateway, numbers = _provisioned(box)
    pcap, expected = generate(box, "send", "--provisioned", numbers, "--count", 500, "--payload", 1024)
    for counts in ("first_pass", "further_pass", "further_pass"):
        before = gateway.metrics()
        after = _carry(box, pcap, gateway, expected["frames"])
        _expect_moved(before, after, expected[counts])
        expect_equal("connections", after.total("causeway_connections"), 1)
    gateway.terminate()


def read_by_tshark(box: Box) -> None:
    """An independent reader finds the headers that we mean, and nothing malformed."""
    if shutil.which("tshark") is None:
        raise Skip("there is no tshark (package tshark)")
    at_queue_pair = ["--qpn", 0x1234, "--psn", 0xFFFFFE, "--payload", 1024]
    for profile, words, fields in (
        ("send", at_queue_pair, "infiniband.bth.opcode == 4 && infiniband.bth.destqp == 0x1234"),
        ("requests", [], "infiniband.mad.attributeid == 0x10 && infiniband.deth.q_key == 0x80010000"),
    ):
        for addresses in (both_addresses(), ["--server", "fd09::1", "--client", "fd09::2", "--vlan", 7]):
            pcap, expected = generate(box, profile, *addresses, "--count", 50, *words)
            # RPC-over-RDMA would need the connection's set-up to be in the file.
            done = box.run(
                "tshark", "-r", pcap, "--disable-protocol", "rpcordma", "-Y", f"{fields} && !_ws.malformed", timeout=120
            )
            expect_equal(f"frames of {profile} as tshark reads them", len(done.stdout.splitlines()), expected["frames"])


def played_by_pktgen(box: Box) -> None:
    """Pktgen-DPDK itself, by deploy/pktgen/run.py, which compares the counters; where there is one."""
    program = os.environ.get("CAUSEWAY_PKTGEN", "")
    if not os.access(program, os.X_OK):
        raise Skip("CAUSEWAY_PKTGEN names no pktgen program (deploy/pktgen/README.md tells how to build one)")
    socket = box.directory / "vhost.sock"
    gateway = box.gateway(device=f"net_vhost0,iface={socket}", extra=PATIENT, credits="64")
    gateway.start_ready()
    mac = box.ctl_json(gateway, "status")["ports"][0]["mac"]
    numbers = box.directory / "provisioned.json"
    device = f"net_virtio_user0,path={socket},queue_size=1024"
    done = box.run(
        box.causeway_load,
        "pktgen",
        "provision",
        "--device",
        device,
        "--address",
        f"{CLIENT}/24",
        "--mtu",
        4500,
        "--lcore",
        LOAD_CPU,
        "--server",
        SERVER,
        "--output",
        numbers,
        timeout=60,
    )
    expect_equal(f"provision: {done.stderr.strip()}", done.returncode, 0)
    addresses = [*both_addresses(), "--server-mac", mac]
    sends = ["--provisioned", numbers, "--count", 4096, "--payload", 1024]
    for profile, words, passes in (("noise", addresses, 3), ("malformed", addresses, 1), ("send", sends, 2)):
        pcap, _ = generate(box, profile, *words)
        done = box.run(
            "python3",
            ROOT / "deploy/pktgen/run.py",
            pcap,
            "--pktgen",
            program,
            "--vhost",
            socket,
            "--passes",
            passes,
            "--lcores",
            f"{LOAD_CPU},{GATEWAY_CPU}",
            "--metrics",
            gateway.metrics_address,
            "--log",
            box.directory / f"{profile}.log",
            "--limit",
            120,
            timeout=180,
        )
        expect_equal(f"exit status of run.py for {profile}: {done.stdout[-1500:]}{done.stderr[-500:]}", done.returncode, 0)
    gateway.terminate()


def wrong_use(box: Box) -> None:
    for words, status, sentence in (
        (["send", *both_addresses(), "-o", "x.pcap"], 2, "send needs a queue pair: --provisioned FILE, or --qpn and --psn"),
        (["noise", "--server", SERVER, "--client", "fd09::2", "-o", "x.pcap"], 2, "are not of one family"),
        (["noise", *both_addresses(), "-o", "x.cap"], 2, "does not end in .pcap"),
        (["noise", *both_addresses(), "--server-mac", "1:2", "-o", "x.pcap"], 2, "is not a MAC address"),
        (["noise", *both_addresses(), "-o", "/nonexistent/x.pcap"], 1, "cannot write /nonexistent/x.pcap: No such file"),
        (["malformed", "--provisioned", "/nonexistent.json", "-o", "x.pcap"], 1, "cannot read /nonexistent.json; write it with"),
        (["noice"], 2, ""),
        ([], 2, ""),
    ):
        done = box.run(box.causeway_load, "pktgen", *words)
        expect_equal(f"exit status of pktgen {words}", done.returncode, status)
        expect(sentence in done.stderr, f"pktgen {words}: {done.stderr.strip()!r} does not say {sentence!r}")
    for profile in ("send", "requests", "malformed", "noise", "provision"):
        done = box.run(box.causeway_load, "pktgen", profile, "--help")
        expect(done.returncode == 0 and "--output" in done.stdout, f"pktgen {profile} --help: {done.stdout}")


CASES = [
    ("pktgen: every malformed frame counts under its name", lambda box: one_pass("malformed", [], box)),
    ("pktgen: every malformed frame counts under its name, IPv6 and VLAN", tagged_ipv6),
    ("pktgen: noise counts under its names", lambda box: one_pass("noise", ["--count", 3000], box)),
    ("pktgen: endless noise counts the same in each pass", endless_noise),
    ("pktgen: a flood of requests is answered or dropped, each once", flood),
    ("pktgen: malformed frames at a queue pair count under their names", malformed_at_queue_pair),
    ("pktgen: SENDs are taken once, then they are duplicates", sends_to_queue_pair),
    ("pktgen: Pktgen itself plays the captures, and every counter is as promised", played_by_pktgen),
    ("pktgen: tshark reads the captures", read_by_tshark),
    ("pktgen: wrong use is explained", wrong_use),
]
