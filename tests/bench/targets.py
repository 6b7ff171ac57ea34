"""What the benches' figures are held against: a floor (fit to be used), a target (good), a moonshot.

A verdict says what a figure reached on the machine and in the run that it comes from. It is information: no test fails by it. Where
speed alone cannot get past some figure (as much as the peer that does without us), one that is past it has another reason, and no
verdict.
"""

from pathlib import Path
from typing import Any, NamedTuple, Optional

Row = dict[str, Any]
GOODPUT = Path(__file__).resolve().parents[1] / "golden/goodput.txt"


class Target(NamedTuple):
    what: str
    figure: str  # name of a row
    field: str  # "value" or "ratio"
    floor: Optional[float]
    target: Optional[float]
    moonshot: Optional[float]
    less_is_better: bool = False
    ideal: Optional[float] = None  # as far as speed can get


TARGETS = [
    Target(
        "small RPC on memif, 8 connections, busy cycles of the gateway",
        "link/echo64_w8_c8_gateway_cycles",
        "value",
        1000,
        500,
        300,
        True,
    ),
    Target("the same, cycles between two of them: the slower end", "link/echo64_w8_c8_cycles", "value", 1000, 500, 300, True),
    *(
        Target(
            f"{what}, gateway's share, back to back", f"rpc_pair/{case}/gateway_cycles", "value", floor, target, moonshot, True
        )
        for what, case, floor, target, moonshot in (
            ("NULL, 32 in flight", "null_w32", 600, 350, 200),
            ("NULL, one at a time", "null_w1", 800, 450, 300),
            ("ECHO of 64 bytes, 8 connections with 4 each", "echo64_w4_c8", 1000, 650, 400),
        )
    ),
    Target("NULL, 32 in flight, both ends back to back", "rpc_pair/null_w32/cycles_per_rpc", "value", 1500, 750, 400, True),
    Target("one call at a time on memif, p50, us", "link/echo64_w1_p50", "value", 3, 1.5, 1, True),
    Target("one call at a time on memif, p50 / bare memif echo", "link/echo64_w1_p50", "ratio", 0.2, 1 / 3, 0.5),
    Target("RPC/s / eRPC's on the same link (not packaged)", "erpc", "ratio", 0.35, 0.55, 0.8),
    *(
        Target(
            f"payload of the gateway / {bound} bound, {name} of 1 MiB, MTU {mtu}",
            f"payload/{name}1m_mtu{mtu}/gateway",
            "ratio",
            0.45,
            0.7,
            0.85,
            ideal=1.0,
        )
        for mtu in (1024, 4096)
        for name, bound in (("read", "copy+CRC"), ("write", "CRC"))
    ),
    *(Target(f"iCRC / bare ISA-L, {size} bytes", f"icrc/one_piece/{size}", "ratio", 0.95, 1.1, None) for size in (1084, 4156)),
    *(
        Target(
            f"iWARP, small RPC, {calls}{crc} / the same over TCP, all poll",
            f"iwarp/echo64_{name}{suffix}",
            "ratio",
            0.5,
            0.8,
            1.0,
        )
        for calls, name in (("one at a time", "w1"), ("32 in flight", "w32"), ("8 connections", "w8_c8"))
        for crc, suffix in ((", CRC", ""), (", no CRC", "_no_crc"))
    ),
    # Not by the rates: they are those of two processes that poll for each other, beside a stream whose ends sleep.
    *(
        Target(
            f"iWARP, {name} of 1 MiB{crc}: CPU per byte of TCP / of the gateway",
            f"iwarp/{name}1m{suffix}/gateway_cpu",
            "ratio",
            floor,
            target,
            0.95,
        )
        for name in ("read", "write")
        for crc, suffix, floor, target in ((", CRC", "", 0.5, 0.7), (", no CRC", "_no_crc", 0.6, 0.85))
    ),
    Target("iWARP, bytes per idle connection", "iwarp/bytes_per_idle_connection", "value", 16384, 8192, 4096, True),
    Target("64-byte SENDs acknowledged / testpmd echo, packets/s", "link/send64_acknowledged", "ratio", 0.2, 0.35, 0.5),
    Target("goodput at 1 % loss, plain go-back-N peer, W=64", "goodput/standard_send_w64_1_percent", "value", 0.40, 0.55, 0.59),
    Target("goodput at 1 % loss between Causeways, W=64", "goodput/causeway_send_w64_1_percent", "value", 0.80, 0.93, 0.97),
    Target("bytes per idle connection", "connections/bytes_per_idle_connection", "value", 8192, 2048, 1024, True),
    Target(
        "rate of the gateway with 10,000 active queue pairs / with 16, calls in turn",
        "connections/10000_active_in_turn/gateway",
        "ratio",
        0.5,
        0.75,
        0.9,
    ),
    Target(
        "the same of both ends, which share a CPU and its caches", "connections/10000_active_in_turn", "ratio", 0.5, 0.75, 0.9
    ),
    Target("the gateway's, all calls in flight at once", "connections/10000_active_all/gateway", "ratio", 0.5, 0.75, 0.9),
    Target("hand-off to a worker and back, one thread", "handoff/rings_one_core", "value", 300, 120, 60, True),
    Target("the same on two CPUs", "handoff/rings_two_cores", "value", 300, 120, 60, True),
    *(
        Target(f"through the gateway / direct TCP, {where}, {calls}", f"gateway/{case}", "ratio", 0.7, target, 1.0, ideal=1.0)
        for where, case, calls, target in (
            ("two CPUs for all", "shared_w32", "one connection", 0.9),
            ("two CPUs for all", "shared_w8_c8", "eight connections", 0.9),
            ("backend and gateway on one CPU, client on the other", "apart_w32", "one connection", 0.95),
            ("backend and gateway on one CPU, client on the other", "apart_w8_c8", "eight connections", 0.95),
        )
    ),
    Target(
        "p50 that the gateway adds to TCP, us, the same CPUs awake", "gateway/alone_w1_p50", "added_us", 10, 5, 3, True, ideal=0.0
    ),
    # UCX over shared memory is what stands closest to memif: the same medium, without checksums, acknowledgements or RPC.
    *(
        Target(f"64-byte {ours} / messages of {name}", f"messages/{row}_beside_{name}_64", "ratio", floor, target, None)
        for ours, row in (("SENDs", "send64"), ("RPCs", "echo64"))
        for name, floor, target in (("ucx_shm", 0.1, 0.5), ("ucx_tcp", 1, 10))
    ),
    *(
        Target(
            f"{ours} of 64 bytes there and back / {name}",
            f"messages/{row}_beside_{name}_there_and_back",
            "ratio",
            floor,
            target,
            None,
        )
        for ours, row in (("SENDs", "send64_there_and_back"), ("RPCs", "echo64_there_and_back"))
        for name, floor, target in (("ucx_shm", 0.1, 0.5), ("ucx_tcp", 1, 10), ("libfabric_rxd", 1, 10))
    ),
    *(
        Target(f"bulk, {way} of {size} / {name}", f"messages/{way}_{short}_beside_{name}_{short}", "ratio", floor, target, None)
        for way in ("send", "write", "source", "sink")
        for short, size in (("64k", "64 KiB"), ("1m", "1 MiB"))
        for name, floor, target in (("ucx_shm", 0.25, 0.75), ("ucx_tcp", 1, 5))
    ),
    *(
        Target(
            f"rate of a core beside {count - 1} more, taking turns",
            f"cores/worlds_{count}_taking_turns",
            "ratio",
            0.8,
            0.95,
            None,
        )
        for count in (2, 4)
    ),
    Target("rate of a core while another one works", "cores/worlds_2_at_once", "ratio", 0.8, 0.95, None),
    Target("scrape of /metrics with 10,000 connections, ms", "scrape/10000_connections", "value", 20, 10, 5, True),
    Target("calls while /metrics is scraped four times a second / without", "scrape/cpu_us_per_call", "ratio", 0.95, 0.99, None),
    Target("CPU per byte / rdma_rxe in the same guest", "rxe_guest", "ratio", None, None, None),
]


def text(value: Optional[float]) -> str:
    """As the tables have it."""
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def verdict(target: Target, have: float) -> str:
    if target.ideal is not None and (have < target.ideal if target.less_is_better else have > target.ideal):
        return "none: past the ideal"
    reached = "below floor"
    for name, bound in (("floor", target.floor), ("target", target.target), ("moonshot", target.moonshot)):
        if bound is not None and (have <= bound if target.less_is_better else have >= bound):
            reached = name
    return reached


def judged(rows: list[Row]) -> list[Row]:
    """A row per target, with the figure where there is one."""
    by_name = {row["name"]: row for row in rows}
    out = []
    for target in TARGETS:
        row = by_name.get(target.figure, {})
        have = row.get(target.field)
        entry: Row = {
            "what": target.what,
            "figure": target.figure,
            "field": target.field,
            "floor": target.floor,
            "target": target.target,
            "moonshot": target.moonshot,
            "less_is_better": target.less_is_better,
            "ideal": target.ideal,
        }
        if have is None:
            entry["verdict"] = "not measured"
        else:
            entry |= {
                "have": have,
                "verdict": verdict(target, have),
                **{key: row[key] for key in ("value", "unit", "baseline", "beside", "ratio", "spread", "state") if key in row},
            }
        out.append(entry)
    return out


def derived(rows: list[Row]) -> list[Row]:
    """Figures that follow from others of the same run, and from the simulation's golden file."""
    by_name = {row["name"]: row for row in rows}
    out: list[Row] = []
    pair = by_name.get("rpc_pair/echo64_w4_c8/cycles_per_rpc")
    link = by_name.get("link/echo64_w8_c8")
    for name, row in by_name.items():
        if name.startswith("rpc_pair/") and "gateway" in row:
            out.append(
                {
                    "name": name.replace("/cycles_per_rpc", "/gateway_cycles"),
                    "value": row["gateway"],
                    "unit": "cycles",
                    "spread": row["gateway_spread"],
                }
            )
    if pair is not None and pair["value"] > 0 and link is not None and link["value"] > 0:
        hertz = pair["value"] / pair["ns_per_rpc"] * 1e9
        busy_end = {
            "name": "link/echo64_w8_c8_cycles",
            "value": hertz / link["value"],
            "unit": "cycles",
            "spread": [hertz / rate if rate > 0 else 0 for rate in reversed(link["spread"])],
        }
        if "state" in link:
            busy_end["state"] = link["state"]
        out.append(busy_end)
        if "gateway_busy_ns" in link:
            out.append(
                busy_end
                | {
                    "name": "link/echo64_w8_c8_gateway_cycles",
                    "value": hertz * link["gateway_busy_ns"] / 1e9,
                    "spread": [hertz * link["gateway_busy_ns"] / 1e9] * 2,
                }
            )
    return out + goodput_rows()


def goodput_rows() -> list[Row]:
    """By tests/golden/goodput.txt, which the suite `sim` holds the simulation to."""
    rates: dict[tuple[str, str, int, int], float] = {}
    for line in GOODPUT.read_text().splitlines():
        words = line.split()
        if not line.startswith("#") and len(words) == 5:
            rates[words[0], words[1], int(words[2]), int(words[3])] = float(words[4])
    out = []
    for peer in ("standard", "causeway"):
        lossy, clean = rates.get((peer, "send", 64, 10)), rates.get((peer, "send", 64, 0))
        if lossy and clean:
            share = lossy / clean
            out.append(
                {
                    "name": f"goodput/{peer}_send_w64_1_percent",
                    "value": share,
                    "unit": "of loss-free",
                    "spread": [share, share],
                    "simulated": True,
                }
            )
    return out
