"""Drills: the gateway killed, reloaded and drained under load; a clock that jumps; a log that nobody can write."""

import fcntl
import os
import re
import signal
import time
from functools import partial
from pathlib import Path

from drill import PORT, BackendInTrouble, Drill, expect_intact, gateway_before
from harness import Box, Gateway, Skip, expect, expect_equal
from lab.daemon import wait_until

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


def killed(box: Box) -> None:
    """SIGKILL in the middle of everything; the next one is there a second later, and the load never learns more than that it lost
    connections."""
    load = box.load("--reconnect", role="server", operation="source", size=20_000, connections=4, window=4, seconds=8)
    wait_until((box.directory / "link.sock").exists, 30, "the load's end of the link")
    gateway = box.gateway(role="client")
    gateway.start_ready()
    load.wait_connected()
    drill = Drill(box, gateway)
    gateway.kill()
    drill.expect_down()
    gateway.start_ready()
    report = load.result()
    expect_intact(report)
    expect(report["lost"] >= 4, f"{report['lost']} connections were lost")
    expect(gateway.metrics().total("causeway_backend_calls_total") > 0, "no calls after the restart")
    gateway.terminate()


def reloaded(box: Box) -> None:
    """Ten reloads under load, the last of a file with a mistake: no connection is lost, and the mistake is named with its line."""
    gateway = box.gateway()
    gateway.start_ready()
    load = box.load(connections=4, window=8, seconds=4)
    load.wait_connected()
    drill = Drill(box, gateway)
    config = box.directory / "gateway.toml"
    for level in ("debug", "info") * 4 + ("debug",):
        config.write_text(config.read_text().split("[log]")[0] + f'[log]\nlevel = "{level}"\n')
        gateway.signal(signal.SIGHUP)
        wait_until(lambda: box.ctl_json(gateway, "log", "level")["level"] == level, 5, f"log level {level}")
    config.write_text(config.read_text() + "nonsense = 1\n")
    gateway.signal(signal.SIGHUP)
    wait_until(lambda: gateway.metrics().total("causeway_config_last_reload_successful") == 0, 5, "the mistake is found")
    after = gateway.metrics()
    report = load.result()
    expect_intact(report)
    expect_equal("connections lost", report["lost"], 0)
    line = config.read_text().count("\n")
    drill.expect(rf"warning .*gateway\.toml:{line}.*nonsense", "ReloadFailed", after)
    gateway.terminate()


def end_drains_first(box: Box) -> None:
    """Told to end, the gateway answers what clients have under way, as long as its configuration allows. Asked again, it waits no longer."""
    backend = BackendInTrouble(box)
    for limit, delay_s, signals, said in (
        (5, 0.5, 1, r"info drained: 4 connections ended in order, 0 by force"),
        (1, 30, 1, r"warning drain: the time is up, 4 connections are ended"),
        (20, 30, 2, r"info shutting down: disconnecting all clients"),
    ):
        backend.mode = "pass"
        gateway = gateway_before(box, backend.address, gateway_extra=f"drain_on_stop_s = {limit}")
        load = box.load("--reconnect", "--port", PORT, connections=4, window=4, seconds=60)
        load.wait_connected()
        backend.delay_s = delay_s
        backend.mode = "slow"
        time.sleep(0.3)  # calls are with the backend
        begun = time.monotonic()
        for _ in range(signals):
            gateway.signal(signal.SIGTERM)
            time.sleep(0.3)
            if signals == 1 and delay_s == 30:
                expect_equal("what stops a drain", box.ctl_json(gateway, "drain", "stop")["state"], "draining")
        expect_equal("exit status", gateway.finish(15), 0)
        lasted = time.monotonic() - begun
        expect(re.search(said, gateway.output()) is not None, f"no line like {said!r}:\n{gateway.tail()}")
        expect(lasted < limit + 5 and (signals > 1 or lasted > min(limit, delay_s) / 2), f"the end took {lasted:.1f} s")
        load.kill()
    backend.close()


def drain_that_cannot_end(box: Box) -> None:
    """A backend owes answers, so the drain waits for its clients; when they are there, it ends, and no call has failed."""
    backend = BackendInTrouble(box)
    gateway = gateway_before(box, backend.address)
    load = box.load("--reconnect", "--port", PORT, connections=4, window=4, seconds=6)
    load.wait_connected()
    backend.delay_s = 2.5
    backend.mode = "slow"
    drill = Drill(box, gateway)
    box.ctl(gateway, "drain", "start")
    wait_until(lambda: gateway.metrics().total("causeway_draining") == 1, 5, "the drain begins")
    during = gateway.metrics()
    expect(during.total("causeway_connections") > 0, "nobody is waited for")
    backend.mode = "pass"
    wait_until(lambda: gateway.metrics().total("causeway_connections") == 0, 10, "the drain ends")
    ended = gateway.metrics()
    expect_equal("by force", ended.total("causeway_connections_closed_total", reason="closed_by_us"), 0)
    box.ctl(gateway, "drain", "stop")
    expect_intact(load.result())
    drill.expect(r"info drain begun by ", "DrainStuck", during)
    backend.close()
    gateway.terminate()


def clock_jumps(box: Box) -> None:
    """The wall clock jumps ten days on, then twenty back, under load. libfaketime moves what clock_gettime(CLOCK_REALTIME) says in this
    process; what the log writes shows that it does. Timers of the kernel are not moved by it: the code waits by none on that clock.
    """
    if not FAKETIME.exists():
        raise Skip("there is no libfaketime (package faketime)")
    clock = box.directory / "clock"
    clock.write_text("+0\n")
    gateway = box.gateway(extra="[roce]\nkeepalive_s = 1\n")
    gateway.env = dict(
        box.env,
        LD_PRELOAD=str(FAKETIME),
        FAKETIME_TIMESTAMP_FILE=str(clock),
        FAKETIME_NO_CACHE="1",
        FAKETIME_DONT_FAKE_MONOTONIC="1",
        DONT_FAKE_MONOTONIC="1",
    )
    gateway.start_ready()
    load = box.load(connections=4, window=4, seconds=5)
    load.wait_connected()
    before = gateway.metrics()
    for offset in ("+10d", "-10d"):
        clock.write_text(f"{offset}\n")
        box.ctl(gateway, "log", "level", "debug")
        day = time.strftime("%Y-%m-%dT%H", time.gmtime(time.time() + (10 if offset[0] == "+" else -10) * 86400))
        gateway.wait_for_line(rf"^{day[:10]}T.*log level changed", 5)
        time.sleep(1.2)  # longer than keepalive_s
        calls = gateway.metrics().total("causeway_backend_calls_total")
        wait_until(lambda: gateway.metrics().total("causeway_backend_calls_total") > calls, 5, "calls go on")
    report = load.result()
    expect_intact(report)
    expect_equal("connections lost", report["lost"], 0)
    after = gateway.metrics()
    # Not ack_timeouts: a poll core that waits for a busy CPU has them too.
    for name in ("causeway_roce_retries_exhausted_total", "causeway_rpcrdma_call_timeouts_total"):
        expect_equal(name, after.total(name) - before.total(name), 0)
    expect_equal("start of the process", after.total("process_start_time_seconds"), before.total("process_start_time_seconds"))
    gateway.terminate()


def _start_answering(box: Box, gateway: Gateway) -> None:
    """One of which the log is elsewhere and does not say that it is ready."""
    gateway.start()
    wait_until(lambda: box.run(box.causewayctl, "--socket", gateway.admin, "status").returncode == 0, 30, "the gateway answers")


def log_disk_is_full(box: Box) -> None:
    """The log goes to a file system of 64 KiB that something else fills up. The gateway serves; when there is room again, its next
    line says how many are missing."""
    if os.geteuid() != 0:
        raise Skip("takes root")
    disk = box.directory / "disk"
    disk.mkdir()
    gateway = box.gateway()
    # A mount namespace of its own: nobody else sees the mount, and it goes with the process.
    gateway.argv = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'mount -t tmpfs -o size=64k tmpfs {disk} && exec "$0" "$@" 2>>{disk}/log',
        *gateway.argv,
    ]
    _start_answering(box, gateway)
    inside = Path(f"/proc/{gateway.pid}/root{disk}")
    drill = Drill(box, gateway)
    load = box.load(connections=4, window=4, seconds=3)
    load.wait_connected()
    try:
        (inside / "filler").write_bytes(bytes(1 << 20))
    except OSError as error:
        expect("No space" in str(error), str(error))
    # The last page of the log still has room; ours are the bytes that take it.
    with (inside / "log").open("ab") as log:
        log.write(b"-" * (4095 - log.tell() % 4096) + b"\n")
    for level in ("debug", "info"):
        box.ctl(gateway, "log", "level", level)
    expect_intact(load.result())
    during = gateway.metrics()
    (inside / "filler").unlink()
    box.ctl(gateway, "log", "level", "debug")
    said = (inside / "log").read_text()
    expect("log lines were lost: No space left on device" in said, said[-1000:])
    drill.expect("", "LogLost", during, moved=(("causeway_log_lines_lost_total", {}, 1),))
    gateway.terminate()


def log_reader_fails(gone: bool, box: Box) -> None:
    """A collector that died, or hangs and lets its pipe run full: the control thread, which logs, goes on."""
    fifo = box.directory / "collector"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    gateway = box.gateway()
    gateway.argv = ["sh", "-c", f'exec "$0" "$@" 2>{fifo}', *gateway.argv]
    _start_answering(box, gateway)
    drill = Drill(box, gateway)
    if gone:
        os.close(reader)
    load = box.load(connections=2, window=4, seconds=2)
    load.wait_connected()
    for level in ("debug", "info") * 10:
        box.ctl(gateway, "log", "level", level)
    expect_intact(load.result())
    drill.expect("", "LogLost", moved=(("causeway_log_lines_lost_total", {}, 1),))
    if not gone:
        os.read(reader, 65536)
        box.ctl(gateway, "log", "level", "debug")
        said = os.read(reader, 65536).decode()
        expect("log lines were lost: whoever reads them does not keep up" in said, said)
        os.close(reader)
    gateway.terminate()


CASES = [
    ("drill: the gateway is killed under load and started again", killed),
    ("drill: reloads under load, the last with a mistake", reloaded),
    ("drill: a drain that a slow backend holds up", drain_that_cannot_end),
    ("drill: a gateway that is told to end drains first", end_drains_first),
    ("drill: the wall clock jumps", clock_jumps),
    ("drill: the log's disk is full", log_disk_is_full),
    ("drill: the log's reader is gone", partial(log_reader_fails, True)),
    ("drill: the log's reader is stuck", partial(log_reader_fails, False)),
]
