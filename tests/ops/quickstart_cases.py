"""deploy/quickstart.sh: as this user, as an ordinary user, and interrupted."""

import os
import pwd
import re
import shutil
import signal
import time
from pathlib import Path

from harness import ROOT, Box, Program, expect, expect_equal
from lab.daemon import wait_until

USER = "nobody"
LIMIT_S = 90


def _expect_table(text: str) -> None:
    rows = re.findall(r"^   (?:echo|source|sink) .* +\d+ +\d+\.\d\d +\d+\.\d +\d+\.\d$", text, re.MULTILINE)
    expect_equal(f"rows of the table in\n{text}", len(rows), 5)
    expect(re.search(r"metrics +http://127\.0\.0\.1:\d+/metrics", text) is not None, "no metrics address")
    expect("What next" in text, "nothing to try next")


def runs_as_ordinary_user(box: Box) -> None:
    """As somebody who owns nothing here, when the suite may change to him; else as who runs the suite."""
    if os.getuid() == 0:
        words = _of_other_user(box)
    else:
        words = [ROOT / "deploy/quickstart.sh", "--build-dir", box.build]
    done = box.run(*words, "--no-build", "--seconds", 1, timeout=LIMIT_S)
    expect_equal(f"exit status, with\n{done.stdout[-500:]}{done.stderr}", done.returncode, 0)
    expect_equal("stderr", done.stderr, "")
    _expect_table(done.stdout)


def _of_other_user(box: Box) -> list[object]:
    """The command that runs the script as USER, in a copy that USER can read wherever the repository lies."""
    tree = box.directory / "tree"
    shutil.copytree(ROOT / "deploy", tree / "deploy")
    for program in (box.causewayd, box.causewayctl, box.causeway_load):
        place = tree / "build" / program.relative_to(box.build)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(program, place)
    user = pwd.getpwnam(USER)
    for path in (tree, *tree.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid)
    return [
        "setpriv",
        "--reuid",
        user.pw_uid,
        "--regid",
        user.pw_gid,
        "--clear-groups",
        "--no-new-privs",
        "env",
        "-i",
        "PATH=/usr/bin:/bin",
        tree / "deploy/quickstart.sh",
    ]


def _started(box: Box, *options: str) -> Program:
    words = [str(ROOT / "deploy/quickstart.sh"), "--no-build", "--build-dir", str(box.build), *options]
    script = Program("quickstart.sh", words, box.directory.parent / "quickstart.log", box.env)
    box.programs.append(script)
    script.start()
    return script


def _expect_gone(box: Box, gateway_pid: int) -> None:
    expect(not Path(f"/proc/{gateway_pid}").exists(), "the gateway still runs")
    expect_equal("what it leaves behind", [path.name for path in box.directory.iterdir()], [])


def interrupted(box: Box) -> None:
    script = _started(box, "--seconds", "60")
    script.wait_for_line(r"connections up", 30)
    gateway_pid = int(re.search(r"ready: process (\d+)", script.output())[1])
    start = time.monotonic()
    script.signal(signal.SIGTERM)
    expect_equal("exit status", script.finish(25), 130)
    expect(time.monotonic() - start < 10, "took longer than 10 s to stop")
    _expect_gone(box, gateway_pid)


def keeps_the_gateway(box: Box) -> None:
    script = _started(box, "--seconds", "1", "--keep")
    script.wait_for_line(r"runs until Ctrl-C", LIMIT_S)
    gateway_pid = int(re.search(r"ready: process (\d+)", script.output())[1])
    wait_until(lambda: "--op echo" in script.output(), 5, "the load's command")
    _expect_table(script.output())
    admin = re.search(r"--socket (\S+) status", script.output())[1]
    done = box.run(box.causewayctl, "--socket", admin, "status")
    expect("ready" in done.stdout, f"the gateway does not answer: {done.stderr}")
    command = next(line for line in script.output().splitlines() if "--op echo" in line).split()
    again = box.run(*command, "--seconds", 1, timeout=30)
    shutil.rmtree(box.directory / "dpdk")  # of this load, which is not the script's
    expect_equal(f"exit status of the load it names, with {again.stderr}", again.returncode, 0)
    script.signal(signal.SIGINT)
    expect_equal("exit status", script.finish(25), 0)
    _expect_gone(box, gateway_pid)


def refuses_nonsense(box: Box) -> None:
    for words in (("--nonsense",), ("--seconds", "0"), ("--seconds",)):
        done = box.run(ROOT / "deploy/quickstart.sh", *words)
        expect_equal(f"exit status of {words}", done.returncode, 2)
    done = box.run(ROOT / "deploy/quickstart.sh", "--no-build", "--build-dir", box.directory / "none")
    expect_equal("exit status without programs", done.returncode, 1)
    expect("--build-dir" in done.stderr, done.stderr)
    expect("--nfs" in box.run(ROOT / "deploy/quickstart.sh", "--help").stdout, "--help does not mention --nfs")


CASES = [
    ("quickstart.sh runs to its end for an ordinary user", runs_as_ordinary_user),
    ("quickstart.sh, ended under way, stops what it started", interrupted),
    ("quickstart.sh --keep keeps the gateway until Ctrl-C, and leaves nothing behind", keeps_the_gateway),
    ("quickstart.sh explains wrong usage", refuses_nonsense),
]
# They are for who tries it on a machine, not for a machine that is tried.
ALONE = [name for name, _ in CASES]
