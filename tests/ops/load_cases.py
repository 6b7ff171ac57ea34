"""What causeway-load can do beyond a closed loop of one kind of call: scenarios, open loops, profiles, churn, faults, reports.

Nothing here judges speed. What is compared with time is the load's own schedule, which a busy machine does not change, or has a
lower limit only.
"""

import csv
import json
import os
import pty
import re
import signal
import time
from typing import Any

from harness import LOAD_CPU, ROOT, Box, Gateway, Load, expect, expect_equal

SCENARIOS = ROOT / "deploy/load"
# Needs an NFS server: tests/interop has it.
NFS_SCENARIO = "nfs-mixed"
MANY = 600
MANY_CLIENTS = f"""\
[limits]
connections_max = {MANY}
half_open_max = {MANY}
half_open_max_per_prefix = {MANY}
cm_requests_per_second = 100000
cm_requests_per_second_per_prefix = 100000
"""


def _start(box: Box, name: str, *words: object) -> Load:
    """A load of which the words say everything but where the gateway is."""
    json_path = box.directory / f"{name}.json"
    argv = ["stdbuf", "-oL", box.causeway_load, *_link(box), "--json", json_path, *words]
    load = Load(name, [str(word) for word in argv], box.directory / f"{name}.log", box.env)
    load.json_path = json_path
    box.programs.append(load)
    load.start()
    return load


def _link(box: Box) -> list[object]:
    return [
        "--device",
        box.device("client"),
        "--address",
        "10.9.0.2/24",
        "--server",
        "10.9.0.1",
        "--mtu",
        4500,
        "--lcore",
        LOAD_CPU,
    ]


def _expect_clean(name: str, report: dict[str, Any]) -> None:
    counts = {key: report[key] for key in ("wrong", "failed", "unanswered", "refused", "lost")}
    expect(not any(counts.values()), f"{name}: {counts}")
    expect(report["calls"] > 0, f"{name}: no calls")


def _expect_due(report: dict[str, Any], rate: float, slack: float) -> None:
    expected = rate * report["seconds"]
    expect(abs(report["offered"] - expected) <= slack * expected + 2, f"{report['offered']} calls were due, not {expected:.0f}")


def _serving(box: Box) -> Gateway:
    gateway = box.gateway(credits="64", extra="[limits]\nconnections_max = 256\n")
    gateway.start_ready()
    return gateway


def each_scenario(box: Box) -> None:
    gateway = _serving(box)
    names = sorted(path.stem for path in SCENARIOS.glob("*.toml"))
    expect(len(names) >= 7 and NFS_SCENARIO in names, f"scenarios: {names}")
    listed = box.run(box.causeway_load, "--list")
    expect_equal("exit status of --list", listed.returncode, 0)
    for name in names:
        expect(re.search(rf"^  {name}$", listed.stdout, re.MULTILINE) is not None, f"--list does not show {name}")
        if name == NFS_SCENARIO:
            continue
        report = _start(box, name, "--scenario", SCENARIOS / f"{name}.toml", "--seconds", 1, "--warmup", 0).result()
        _expect_clean(name, report)
        expect(report["title"] != "" and report["title"] != report["operation"], f"{name} has no title")
        for kind in report["mix"]:
            expect(kind["calls"] > 0 or kind["weight"] <= 5, f"{name}: no calls of {kind['operation']}")
    gateway.terminate()


def reports_agree(box: Box) -> None:
    """JSON, CSV, HTML and the text on the terminal are of one run."""
    gateway = _serving(box)
    table, page = box.directory / "out.csv", box.directory / "out.html"
    load = _start(
        box,
        "load",
        "--mix",
        "null:3,echo/1k:1",
        "--connections",
        2,
        "--seconds",
        1,
        "--warmup",
        0,
        "--interval-ms",
        200,
        "--csv",
        table,
        "--html",
        page,
    )
    report = load.result()
    _expect_clean("load", report)
    rows = list(csv.DictReader(table.open()))
    expect_equal("intervals in JSON and CSV", len(report["intervals"]), len(rows))
    expect(len(rows) >= 5, f"{len(rows)} intervals of 200 ms in one second")
    expect_equal("calls of all intervals", sum(int(row["calls"]) for row in rows), report["calls"])
    expect_equal("calls of all kinds", sum(kind["calls"] for kind in report["mix"]), report["calls"])
    expect_equal("bytes, both ways", report["data_bytes"], 2048 * report["mix"][1]["calls"])
    expect(f"calls              {report['calls']} " in load.output(), load.tail())
    html = page.read_text()
    expect(f"<b>{report['calls']}</b>" in html, "the page has another number of calls")
    expect("http" not in html and "<script" not in html, "the page needs the network, or a script")
    gateway.terminate()


def stall_shows(box: Box) -> None:
    """The gateway stands still for 300 ms: every call that was due meanwhile has waited, though only eight were sent."""
    gateway = _serving(box)
    load = _start(
        box,
        "load",
        "--op",
        "echo",
        "--bytes",
        64,
        "--connections",
        1,
        "--window",
        8,
        "--rate",
        "2k",
        "--arrivals",
        "constant",
        "--seconds",
        2,
        "--warmup",
        0,
    )
    load.wait_connected()
    time.sleep(0.3)
    gateway.signal(signal.SIGSTOP)
    time.sleep(0.3)
    gateway.signal(signal.SIGCONT)
    report = load.result()
    _expect_clean("load", report)
    _expect_due(report, 2000, 0.01)
    # 600 of 4000 were due in these 300 ms; the first 300 of them waited for 150 ms at least.
    expect(report["latency_us"]["p99"] > 150_000, f"p99 {report['latency_us']['p99']:.0f} us")
    expect(report["latency_us"]["p99"] >= report["service_us"]["p99"], "latency from sending on is the larger one")
    gateway.terminate()


def open_loop_keeps_its_rate(box: Box) -> None:
    """Calls are due by the clock, whatever the server does; those it cannot take are counted."""
    gateway = _serving(box)
    report = _start(
        box, "random", "--op", "null", "--connections", 4, "--rate", "2k", "--arrivals", "poisson", "--seconds", 1, "--warmup", 0
    ).result()
    _expect_clean("random", report)
    _expect_due(report, 2000, 0.15)
    load = _start(
        box,
        "overload",
        "--op",
        "source",
        "--bytes",
        "1m",
        "--connections",
        1,
        "--window",
        1,
        "--rate",
        "50k",
        "--queue",
        100,
        "--seconds",
        1,
        "--warmup",
        0,
    )
    report = load.result()
    _expect_clean("overload", report)
    expect(report["overflowed"] > 0, "the queue never was full")
    expect_equal("calls that were due", report["offered"], report["calls"] + report["overflowed"] + report["unfinished"])
    expect("calls were due and never sent" in load.output(), load.tail())
    gateway.terminate()


def profiles_are_followed(box: Box) -> None:
    gateway = _serving(box)
    report = _start(
        box,
        "load",
        "--op",
        "null",
        "--connections",
        "2, 500ms=6, 1s=3",
        "--rate",
        "200, 500ms=2k, 1s=2k, 1500ms:400",
        "--arrivals",
        "constant",
        "--seconds",
        2,
        "--interval-ms",
        100,
    ).result()
    _expect_clean("load", report)
    connected = [interval["connected"] for interval in report["intervals"]]
    expect_equal("connections at first, at most, in the end", (connected[0], max(connected), connected[-1]), (2, 6, 3))
    # Half a second each: of 200 per second, of 2000, falling from there to 400, and of these.
    expected = 100 + 1000 + 600 + 200
    expect(abs(report["offered"] - expected) <= 0.03 * expected, f"{report['offered']} calls were due, not {expected}")
    offered = [interval["offered_per_second"] for interval in report["intervals"]]
    expect(offered[0] < 1000 < max(offered), f"calls due in each interval: {offered}")
    expect_equal("connections made, closed by us", (report["connected"], report["closed"]), (6, 3))
    gateway.terminate()


def churn(box: Box) -> None:
    gateway = _serving(box)
    report = _start(
        box,
        "load",
        "--op",
        "echo",
        "--bytes",
        256,
        "--connections",
        8,
        "--window",
        2,
        "--churn",
        100,
        "--seconds",
        1,
        "--warmup",
        0,
    ).result()
    _expect_clean("load", report)
    expect(report["closed"] >= 20, f"{report['closed']} connections were closed")
    # Those closed last may not be back yet.
    expect(0 <= report["closed"] + 8 - report["connected"] <= 8, f"{report['connected']} made, {report['closed']} closed")
    expect(report["connect_us"]["count"] >= report["closed"] - 8, f"times to connect: {report['connect_us']}")
    metrics = gateway.metrics()
    expect(metrics.total("causeway_connections_total", result="established") >= report["connected"], "the gateway counts fewer")
    expect_equal("failed connections", metrics.total("causeway_connections_closed_total", reason="failed_transport"), 0)
    gateway.terminate()


def faults(box: Box) -> None:
    """Lost, doubled, overtaken and broken frames cost time, and nothing else."""
    gateway = _serving(box)
    report = _start(
        box,
        "load",
        "--mix",
        "echo/512:8,source/64k:1,sink/64k:1",
        "--connections",
        2,
        "--window",
        4,
        "--loss",
        5,
        "--duplicate",
        10,
        "--reorder",
        10,
        "--corrupt",
        5,
        "--delay-us",
        20,
        "--jitter-us",
        20,
        "--seconds",
        1,
        "--warmup",
        0,
    ).result()
    _expect_clean("load", report)
    metrics = gateway.metrics()
    for reason in ("icrc", "duplicate"):
        expect(metrics.total("causeway_roce_discards_total", reason=reason) > 0, f"no discards for {reason}")
    expect(metrics.total("causeway_roce_retransmitted_packets_total") > 0, "nothing was sent again")
    expect("loss 5 permille" in report["options"]["faults"], f"options: {report['options']}")
    gateway.terminate()


def live_view(box: Box) -> None:
    """On a terminal, a screen that is drawn over itself; then the result."""
    gateway = _serving(box)
    words = ("--scenario", SCENARIOS / "mixed.toml", "--seconds", 1, "--warmup", 0, "--interval-ms", 200)
    argv = [str(word) for word in (box.causeway_load, *_link(box), *words)]
    child, terminal = pty.fork()
    if child == 0:
        os.execve(argv[0], argv, box.env)
    shown = b""
    try:
        while bytes := os.read(terminal, 65536):
            shown += bytes
    except OSError:
        pass  # how a terminal says that its last user has gone
    finally:
        os.close(terminal)
        _, status = os.waitpid(child, 0)
    text = shown.decode()
    expect_equal("exit status", os.waitstatus_to_exitcode(status), 0)
    screens = re.findall(r"\x1b\[\d+A", text)
    expect(len(screens) >= 3, f"{len(screens)} screens were drawn over others: {text!r}")
    expect_equal("screens of another height", len(set(screens)), 1)
    for word in ("p99.9", "offered", "calls/s", "█", "wrong answers      0"):
        expect(word in text, f"no {word!r} in {text!r}")
    gateway.terminate()


def interrupted(box: Box) -> None:
    """Ctrl-C ends the measurement, not the report; and all of many connections say goodbye."""
    gateway = box.gateway(credits="4", extra=MANY_CLIENTS)
    gateway.start_ready()
    load = _start(
        box, "load", "--op", "null", "--connections", MANY, "--window", 1, "--seconds", 600, "--warmup", 0, "--interval-ms", 100
    )
    load.wait_connected()
    load.wait_for_line(r"RPC/s", 10)
    load.signal(signal.SIGINT)
    report = load.result()
    _expect_clean("load", report)
    expect(report["seconds"] < 600, f"measured {report['seconds']} s")
    expect_equal("goodbyes", gateway.metrics().total("causeway_cm_connections_ended_total", outcome="remote_disconnect"), MANY)
    gateway.terminate()


def several_threads(box: Box) -> None:
    """Two cores, each on a link of its own, one report."""
    second = f"""[[port]]
device = "{box.device("server", "link1").replace("net_memif0", "net_memif1")}"
mtu = 4500
addresses = ["10.9.1.1/24"]
"""
    gateway = box.gateway(port_extra=second, link="link0")
    gateway.start_ready()
    name = "threads"
    path = box.directory / f"{name}.json"
    device = box.device("client", "link{}").replace("net_memif0", "net_memif{}")
    words = [
        "--threads",
        2,
        "--device",
        device,
        "--address",
        "10.9.{}.2/24",
        "--server",
        "10.9.{}.1",
        "--mtu",
        4500,
        "--lcore",
        LOAD_CPU,
    ]
    done = box.run(
        box.causeway_load,
        *words,
        "--connections",
        5,
        "--window",
        4,
        "--seconds",
        2,
        "--warmup",
        0,
        "--bytes",
        64,
        "--json",
        path,
        timeout=60,
    )
    expect_equal(f"exit status of {name}: {done.stderr.strip()}", done.returncode, 0)
    report = json.loads(path.read_text())
    _expect_clean(name, report)
    expect_equal("connections", report["connections"], 5)
    ports = gateway.metrics().by_label("causeway_port_packets_total", "port")
    expect(len(ports) == 2 and min(ports.values()) > 100, f"both ports carried the load: {ports}")
    for options, sentence in (
        (["--connections", 1], "2 threads need as many connections"),
        (["--connections", 4, "--address", "10.9.0.2/24"], "'10.9.0.2/24' would be the same for all"),
        (["--connections", 4, "--op", "getattr"], "calls of NFS come from one thread"),
    ):
        line = [word for word in words if "--address" not in options or word not in ("--address", "10.9.{}.2/24")]
        done = box.run(box.causeway_load, *line, *options)
        expect_equal(f"exit status with {options}", done.returncode, 2)
        expect(sentence in done.stderr, f"{options}: {done.stderr!r}")
    gateway.terminate()


def wrong_scenarios(box: Box) -> None:
    """File, line, key, cause and what to do."""
    path = box.directory / "wrong.toml"
    for text, words in (
        ('[load]\nmxi = "null"\n', ("wrong.toml:2", "mxi", "did you mean 'mix'")),
        ('[load]\nmix = "nul:1"\n', ("wrong.toml:2", "'nul' is no kind of call")),
        ('[load]\nrate = "1k, 5s"\n', ("wrong.toml:2", "rate")),
        ('[load]\nmix = "null, getattr, echo"\n', ("wrong.toml:2", "different backends")),
        ("[faults]\nloss = 1001\n", ("wrong.toml:2", "1000")),
        ("[load\n", ("wrong.toml:1",)),
    ):
        path.write_text(text)
        done = box.run(box.causeway_load, *_link(box), "--scenario", path)
        expect_equal(f"exit status with {text!r}", done.returncode, 2)
        for word in words:
            expect(word in done.stderr, f"{text!r}: no {word!r} in {done.stderr!r}")
    for options, sentence in (
        (["--bytes", "5m"], "--bytes: '5m' is not a size of up to 4m"),
        (["--op", "null", "--mix", "null"], "leave out --op and --bytes"),
        (["--churn", "often"], "--churn: 'often' is not a number"),
        (["--connections", "20k"], "use 1 to"),
        (["--scenario", "mixt"], "one of the scenarios that --list shows"),
        (["--rate", "1k", "--closed"], "leave out --closed"),
        (["--html", "/nonexistent/page.html"], "cannot write /nonexistent/page.html: No such file"),
    ):
        done = box.run(box.causeway_load, *_link(box), *options)
        expect_equal(f"exit status with {options}", done.returncode, 1 if "--html" in options else 2)
        expect(sentence in done.stderr, f"{options}: {done.stderr!r}")


def sleeping_cores_lose_nothing(box: Box) -> None:
    """At a few calls a second both cores sleep between them, and answer late. That is no loss: it is not probed for again and
    again."""
    gateway = box.gateway()
    gateway.start_ready()
    report = box.load("--rate", 200, "--arrivals", "constant", window=4, seconds=8).result()
    metrics = gateway.metrics()
    probes = metrics.total("causeway_roce_tail_probes_total")
    expect(probes <= report["calls"] / 10, f"{probes} probes for {report['calls']} calls without a loss")
    gateway.terminate()


CASES = [
    ("cores that sleep between calls are not probed as if they lost packets", sleeping_cores_lose_nothing),
    ("load: each scenario runs", each_scenario),
    ("load: JSON, CSV, page and text agree", reports_agree),
    ("load: a gateway that stalls shows in an open loop's percentiles", stall_shows),
    ("load: an open loop keeps its rate and counts what it drops", open_loop_keeps_its_rate),
    ("load: profiles of rate and connections are followed", profiles_are_followed),
    ("load: connections that come and go are all accounted for", churn),
    ("load: faults of the link cost no wrong answer", faults),
    ("load: a terminal gets a live view", live_view),
    ("load: an interrupted run has a report, and says goodbye", interrupted),
    ("load: two threads, a link each, make one report", several_threads),
    ("load: wrong scenarios and options are explained", wrong_scenarios),
]
# They say when calls were due and how long they took.
ALONE = [name for name, _ in CASES]
