"""causewayctl report: of a gateway that serves, that hangs, and that is gone; and what the next one says of it."""

import io
import json
import os
import re
import signal
import tarfile
import time
from pathlib import Path
from typing import Any

from ctl_cases import gateway_open_to_nobody
from harness import Box, Gateway, Load, expect, expect_equal
from lab.daemon import wait_until

REPORT_LIMIT_S = 60  # kReportLimit of control/ctl/run_report.cc
SECRET = "opensesame"


class Report:
    """What is in the file."""

    def __init__(self, path: Path, said: dict[str, Any], seconds: float) -> None:
        self.path = path
        self.said = said
        self.seconds = seconds
        with tarfile.open(fileobj=io.BytesIO(path.read_bytes()), mode="r:gz") as archive:
            self.files = {
                member.name.split("/", 1)[1]: (archive.extractfile(member) or io.BytesIO()).read().decode(errors="replace")
                for member in archive.getmembers()
            }

    def __getitem__(self, name: str) -> str:
        expect(name in self.files, f"{name} is not in the report: {self.problem(name)}")
        return self.files[name]

    def problem(self, name: str) -> str:
        return next((part["problem"] for part in self.said["parts"] if part["name"] == name), "no such part")


def _report(box: Box, gateway: Gateway, name: str = "report.tar.gz") -> Report:
    path = box.directory / name
    begun = time.monotonic()
    done = box.run(box.causewayctl, "--socket", gateway.admin, "--json", "report", "--out", path, timeout=2 * REPORT_LIMIT_S)
    seconds = time.monotonic() - begun
    expect_equal(f"exit status of report, which said {done.stdout}{done.stderr}", done.returncode, 0)
    expect_equal("mode of the file", path.stat().st_mode & 0o777, 0o600)
    report = Report(path, json.loads(done.stdout), seconds)
    for part, text in report.files.items():
        expect(SECRET not in text, f"{part} has a secret")
    return report


def _served(box: Box, *words: object) -> tuple[Gateway, Load]:
    """A gateway with clients, long enough for its recorder to have seen them. words: of the load's own."""
    gateway = box.gateway()
    config = box.directory / "gateway.toml"
    config.write_text(config.read_text() + f'# password = "{SECRET}"\n')
    gateway.start_ready()
    load = box.load("--reconnect", *words, connections=2, seconds=30)
    load.wait_connected()
    wait_until(lambda: b'"connections":2' in _recorder(gateway).read_bytes(), 20, "the recorder has seen the clients")
    return gateway, load


def _recorder(gateway: Gateway) -> Path:
    return Path(gateway.admin + ".recorder")


def _expect_last_words(report: Report, folder: str, ended: str) -> None:
    summary = report[f"{folder}/summary.txt"]
    expect(re.search(ended, summary) is not None, f"says of the end: {summary}")
    expect("connection from 10.9.0.2" in report[f"{folder}/log.txt"], f"log: {report[f'{folder}/log.txt']}")
    expect("QPN OR PEER" in report[f"{folder}/events.txt"], f"events: {report[f'{folder}/events.txt'][:500]}")
    expect("bench" in report[f"{folder}/status.txt"], f"status: {report[f'{folder}/status.txt']}")
    expect("causeway_connections" in report[f"{folder}/counters.txt"], f"counters: {report[f'{folder}/counters.txt']}")
    expect("listener[0].port" in report[f"{folder}/config.txt"], f"settings: {report[f'{folder}/config.txt']}")


def of_a_gateway_that_serves(box: Box) -> None:
    # On a machine that others use a load without pauses is late, and repetitions push the first events out.
    gateway, load = _served(box, "--rate", 20)
    expect_equal("mode of the recorder", _recorder(gateway).stat().st_mode & 0o777, 0o600)
    report = _report(box, gateway)
    index = report["index.txt"]
    expect("The gateway answers" in index and "no payload" in index, index)
    for name, text in {
        "gateway/status.txt": "ready",
        "gateway/connections.txt": "10.9.0.2",
        "gateway/queue-pairs.txt": "RTS",
        "gateway/top.txt": "10.9.0.2",
        "gateway/events.txt": "connected",
        "gateway/stats.txt": "causeway_connections",
        "gateway/metrics.txt": "# TYPE causeway_connections",
        "gateway/history.json": '"boot"',
        "gateway/config.txt": "listener[0].port",
        "gateway/reload.txt": "preview",
        "recorder/log.txt": "connection from 10.9.0.2",
        "recorder/summary.txt": " runs\n",
        "config/file.txt": "[[listener]]",
        "config/check.txt": "fine",
        "host/doctor.txt": "faults",
        "host/kernel.txt": "Linux",
        "process/status.txt": "Max core file size",
        "process/threads.txt": "comm",
    }.items():
        expect(text in report[name], f"{name} has no {text!r}: {report[name][:2000]}")
    expect("(removed)" in report["config/file.txt"], "the password's place")
    expect(re.search(r"Max core file size +0 ", report["process/status.txt"]) is not None, "core dumps are on")
    expect("no such file" in report.problem("crashed/log.txt").lower(), f"crashed: {report.problem('crashed/log.txt')}")
    again = box.run(box.causewayctl, "--socket", gateway.admin, "report", "--out", report.path)
    expect_equal("exit status over an existing file", again.returncode, 1)
    expect("not overwritten" in again.stderr, again.stderr)
    load.stop(5)
    gateway.terminate()
    after = _report(box, gateway, "after.tar.gz")
    expect("ended in order" in after["recorder/summary.txt"], after["recorder/summary.txt"])
    gateway.start_ready()
    expect(not Path(f"{_recorder(gateway)}.crashed").exists(), "an end in order was kept as a crash")
    gateway.terminate()


def of_a_gateway_that_hangs(box: Box) -> None:
    gateway, load = _served(box)
    gateway.signal(signal.SIGSTOP)
    try:
        report = _report(box, gateway)
    finally:
        gateway.signal(signal.SIGCONT)
    expect(report.seconds < REPORT_LIMIT_S + 5, f"it took {report.seconds:.0f} s")
    expect(f"is there (process {gateway.pid}) and does not answer" in report["index.txt"], report["index.txt"])
    expect("not asked for" in report.problem("gateway/connections.txt"), report.problem("gateway/connections.txt"))
    _expect_last_words(report, "recorder", r" runs\n")
    expect(re.search(r"State:\s+T", report["process/status.txt"]) is not None, report["process/status.txt"])
    load.stop(5)
    gateway.terminate()


def _crash(box: Box, number: signal.Signals, ended: str) -> Report:
    gateway, load = _served(box)
    gateway.signal(number)
    expect_equal("exit status", gateway.finish(10), -number)
    report = _report(box, gateway)
    expect("does not run" in report["index.txt"], report["index.txt"])
    _expect_last_words(report, "recorder", ended)
    gateway.start_ready()
    gateway.wait_for_line(r"warning the process before \(\d+\) ended .*causewayctl report has its last words", 5)
    after = _report(box, gateway, "after.tar.gz")
    _expect_last_words(after, "crashed", ended)
    expect(" runs\n" in after["recorder/summary.txt"], after["recorder/summary.txt"])
    load.stop(5)
    gateway.terminate()
    return report


def of_one_that_was_killed(box: Box) -> None:
    _crash(box, signal.SIGKILL, r"ended without a word")


def of_one_that_crashed(box: Box) -> None:
    report = _crash(box, signal.SIGSEGV, rf"ended by SIGSEGV \(sent by process {os.getpid()}, user {os.getuid()}\) in thread \S+")
    place = re.search(r"^causewayd\+0x[0-9a-f]+ \(build id [0-9a-f]{40}\)$", report["recorder/summary.txt"], re.M)
    expect(place is not None, report["recorder/summary.txt"])


def without_a_gateway(box: Box) -> None:
    """Nothing is known of it: the host is, and where the file could not be written is said before the work."""
    gateway = box.gateway()
    report = _report(box, gateway)
    expect("does not run" in report["index.txt"], report["index.txt"])
    expect("no such socket" in report.problem("gateway/status.txt"), report.problem("gateway/status.txt"))
    expect("Linux" in report["host/kernel.txt"], report["host/kernel.txt"])
    done = box.run(box.causewayctl, "--socket", gateway.admin, "report", "--out", box.directory / "none/x", timeout=90)
    expect_equal("exit status without the folder", done.returncode, 1)
    expect("--out names another place" in done.stderr, done.stderr)


def of_somebody_who_may_only_look(box: Box) -> None:
    """A member of the socket's group gets what the gateway says, and is told that the recorder is not for him."""
    gateway, causewayctl = gateway_open_to_nobody(box)
    own = box.directory / "own"
    own.mkdir()
    own.chmod(0o777)
    path = own / "report.tar.gz"
    done = box.run(*causewayctl, "--socket", gateway.admin, "--json", "report", "--out", path, timeout=2 * REPORT_LIMIT_S)
    expect_equal(f"exit status, with {done.stderr!r}", done.returncode, 0)
    report = Report(path, json.loads(done.stdout), 0)
    expect("ready" in report["gateway/status.txt"], report["gateway/status.txt"])
    expect("Permission denied" in report.problem("recorder/log.txt"), report.problem("recorder/log.txt"))
    gateway.terminate()


CASES = [
    ("causewayctl report of a gateway that serves", of_a_gateway_that_serves),
    ("causewayctl report of a gateway that hangs", of_a_gateway_that_hangs),
    ("causewayctl report of one that was killed", of_one_that_was_killed),
    ("causewayctl report of one that crashed has the signal and the place", of_one_that_crashed),
    ("causewayctl report without a gateway", without_a_gateway),
    ("causewayctl report for somebody who may only look", of_somebody_who_may_only_look),
]
