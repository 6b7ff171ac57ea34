"""causewayctl restart: the program that is installed follows in the same process, and the connections of RoCE go on."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from cores_cases import by_core, two_cores
from drill import PORT, BackendInTrouble, gateway_before
from harness import CPUS, Box, Gateway, Load, expect, expect_equal, free_tcp_address
from lab.daemon import wait_until
from service_cases import managed

TAKEN_OVER = "causeway_connections_taken_over_total"
BAD_NEWS = 4
# A machine that is busy takes seconds to start a gateway.
PATIENT = ("--ack-timeout", 18)


def _restart(box: Box, gateway: Gateway) -> "subprocess.CompletedProcess[str]":
    return box.run(box.causewayctl, "--socket", gateway.admin, "restart")


def _expect_unnoticed(load: Load, connections: int) -> None:
    """Nothing but a pause."""
    report = load.result()
    counts = {name: report[name] for name in ("connected", "lost", "refused", "resent", "failed", "wrong")}
    expect_equal(
        "what the load has seen",
        counts,
        {"connected": connections, "lost": 0, "refused": 0, "resent": 0, "failed": 0, "wrong": 0},
    )


def nobody_notices(box: Box) -> None:
    """Under load, three times: each client keeps its connection, nothing that was opened is left over, the manager hears of it."""
    gateway, manager = managed(box)
    manager.wait_ready()
    pid = gateway.pid
    load = box.load(*PATIENT, connections=4, window=8, seconds=15)
    load.wait_connected()
    open_files = []
    for _ in range(3):
        time.sleep(0.5)
        done = _restart(box, gateway)
        expect_equal(f"exit status of restart, which said {done.stdout!r} {done.stderr!r}", done.returncode, 0)
        expect(re.fullmatch(r"restarted in \d+\.\d s: 4 of 4 connections went on\n", done.stdout) is not None, done.stdout)
        messages = manager.wait_ready()
        expect_equal("RELOADING messages", sum("RELOADING" in message for message in messages), 1)
        expect(not any("STOPPING" in message for message in messages), f"{messages}")
        metrics = gateway.metrics()
        expect_equal("connections, taken over", (metrics.total("causeway_connections"), metrics.total(TAKEN_OVER)), (4, 4))
        open_files.append(metrics.total("process_open_fds"))
    expect_equal("process", gateway.pid, pid)
    expect(max(open_files) - min(open_files) <= 2, f"files are left open: {open_files}")
    _expect_unnoticed(load, 4)
    gateway.wait_for_line(r"info restart asked for by .*uid \d+.*: the next process gets 4 connections", 1)
    gateway.terminate()
    manager.close()


def calls_are_answered_first(box: Box) -> None:
    """Of a TCP backend that takes its time. One that takes too long keeps its connections behind: they come back, and no call fails."""
    backend = BackendInTrouble(box)
    gateway = gateway_before(box, backend.address)
    load = box.load("--port", PORT, *PATIENT, connections=2, window=4, seconds=10)
    load.wait_connected()
    backend.delay_s = 0.05
    backend.mode = "slow"
    time.sleep(0.5)
    done = _restart(box, gateway)
    expect("2 of 2 connections went on" in done.stdout, done.stdout + done.stderr)
    backend.mode = "pass"
    _expect_unnoticed(load, 2)
    load = box.load("--port", PORT, "--reconnect", *PATIENT, connections=2, window=4, seconds=12)
    load.wait_connected()
    backend.delay_s = 2.0
    backend.mode = "slow"
    time.sleep(0.5)
    done = _restart(box, gateway)
    expect_equal(f"exit status of restart, which said {done.stdout!r} {done.stderr!r}", done.returncode, BAD_NEWS)
    expect("0 of 2 connections went on" in done.stdout, done.stdout)
    backend.mode = "pass"
    report = load.result()
    expect_equal("failed, wrong", (report["failed"], report["wrong"]), (0, 0))
    gateway.terminate()
    backend.close()


def on_two_cores(box: Box) -> None:
    """Each core has its connections again, whichever received their frames."""
    gateway = two_cores(box)
    load = box.load(*PATIENT, connections=16, window=2, seconds=10)
    load.wait_connected()
    before = by_core(gateway, "causeway_lcore_connections")
    expect(min(before) > 0, f"connections by core: {before}")
    for _ in range(2):
        time.sleep(0.5)
        done = _restart(box, gateway)
        expect("16 of 16 connections went on" in done.stdout, done.stdout + done.stderr)
        expect_equal("connections by core", by_core(gateway, "causeway_lcore_connections"), before)
    _expect_unnoticed(load, 16)
    gateway.terminate()


def who_stands_still_stays_behind(box: Box) -> None:
    """A client that acknowledges nothing keeps the others waiting for half a second. It is told that its connection is over."""
    port = f'[[port]]\ndevice = "{box.device("server", "still", 1)}"\nmtu = 4500\naddresses = ["10.9.1.1/24"]\n'
    gateway = box.gateway(extra=port)
    gateway.start_ready()
    lively = box.load(*PATIENT, connections=2, window=4, seconds=12)
    lively.wait_connected()
    # Replies of many packets, so that it stands still within one.
    still = box.load(
        "--device",
        box.device("client", "still"),
        name="still",
        operation="source",
        size=1 << 20,
        connections=1,
        window=8,
        seconds=60,
        network=1,
    )
    still.wait_connected()
    time.sleep(0.5)
    still.signal(signal.SIGSTOP)
    time.sleep(0.1)
    done = _restart(box, gateway)
    expect_equal(f"exit status of restart, which said {done.stdout!r} {done.stderr!r}", done.returncode, BAD_NEWS)
    expect("2 of 3 connections went on" in done.stdout, done.stdout)
    still.signal(signal.SIGCONT)
    still.wait_for_line("lost", 30)
    still.kill()
    _expect_unnoticed(lively, 2)
    gateway.terminate()


def who_cannot_follow_is_refused(box: Box) -> None:
    """A configuration with a mistake, or for other poll cores: one sentence, and the gateway goes on as it was."""
    gateway = box.gateway()
    gateway.start_ready()
    load = box.load(*PATIENT, connections=2, window=4, seconds=8)
    load.wait_connected()
    config = box.directory / "gateway.toml"
    right = config.read_text()
    config.write_text(right + "nonsense = 1\n")
    line = config.read_text().count("\n")
    done = _restart(box, gateway)
    expect_equal("exit status", done.returncode, 1)
    expect(f"gateway.toml:{line}" in done.stderr and "nonsense" in done.stderr, done.stderr)
    if len(CPUS) > 1:
        config.write_text(re.sub(r"poll_lcores = \[\d+\]", f"poll_lcores = [{CPUS[0]}, {CPUS[1]}]", right))
        done = _restart(box, gateway)
        expect_equal("exit status", done.returncode, 1)
        expect("connections cannot go on from format/poll cores 1/1 to 1/2" in done.stderr, done.stderr)
    config.write_text(right + "nonsense = 1\n")
    gateway.signal(signal.SIGUSR2)
    gateway.wait_for_line(rf"error restart asked for by SIGUSR2: .*gateway\.toml:{line}.*; the gateway goes on as it was", 10)
    config.write_text(right)
    gateway.signal(signal.SIGUSR2)
    gateway.wait_for_line(r"2 of 2 connections of the process before go on", 30)
    _expect_unnoticed(load, 2)
    gateway.terminate()


def an_upgrade(box: Box) -> None:
    """Another file is at the place of the program, and it is the one that follows."""
    installed = box.directory / "causewayd"
    shutil.copy(box.causewayd, installed)
    gateway = box.gateway()
    gateway.argv[0] = str(installed)
    gateway.start_ready()
    load = box.load(*PATIENT, connections=2, window=4, seconds=6)
    load.wait_connected()
    shutil.copy(box.causewayd, box.directory / "new")
    os.replace(box.directory / "new", installed)
    program = Path(f"/proc/{gateway.pid}/exe")
    expect(str(program.readlink()).endswith(" (deleted)"), f"{program.readlink()}")
    done = _restart(box, gateway)
    expect("2 of 2 connections went on" in done.stdout, done.stdout + done.stderr)
    expect_equal("the program that runs", program.readlink(), installed)
    _expect_unnoticed(load, 2)
    # What is no program, or is not there, is not followed by.
    installed.unlink()
    done = _restart(box, gateway)
    expect(done.returncode == 1 and "No such file or directory" in done.stderr, done.stderr)
    gateway.terminate()


def iwarp_connects_anew(box: Box) -> None:
    port = free_tcp_address().split(":")[1]
    gateway = box.gateway(
        extra=f'[[listener]]\nname = "iwarp"\ntransport = "iwarp"\naddress = "127.0.0.1"\nport = {port}\nbackend = "bench"\n'
    )
    gateway.start_ready()
    load = box.iwarp_load(port, "--reconnect", "--connections", 2, "--seconds", 8)
    load.wait_connected()
    wait_until(lambda: gateway.metrics().total("causeway_connections") == 2, 5, "the clients are there")
    done = _restart(box, gateway)
    expect_equal(f"exit status of restart, which said {done.stdout!r} {done.stderr!r}", done.returncode, BAD_NEWS)
    report = load.result()
    expect_equal("failed, wrong", (report["failed"], report["wrong"]), (0, 0))
    expect(report["connected"] == 4, f"{report['connected']} connections were made")
    gateway.terminate()


# Connections are handed over within half a second, or not.
ALONE = (
    "a restart that clients of RoCE notice as a pause",
    "a restart answers first what has been called",
    "a restart on two poll cores",
    "a restart leaves behind who stands still, and nobody else",
)

CASES = [
    ("a restart that clients of RoCE notice as a pause", nobody_notices),
    ("a restart on two poll cores", on_two_cores),
    ("a restart leaves behind who stands still, and nobody else", who_stands_still_stays_behind),
    ("a restart answers first what has been called", calls_are_answered_first),
    ("a restart that nobody could follow is refused", who_cannot_follow_is_refused),
    ("an upgrade: the program that is installed follows", an_upgrade),
    ("a restart has clients of iWARP connect anew", iwarp_connects_anew),
]
