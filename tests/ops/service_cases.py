"""causewayd under a service manager: what it tells the manager, when it feeds the watchdog, reload, and the health probes."""

import ctypes
import json
import os
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Callable

from ctl_cases import tcp_server
from harness import READY_LIMIT_S, Box, Gateway, Skip, expect, expect_equal, free_tcp_address
from lab.daemon import LabError, wait_until

WATCHDOG_USEC = 2_000_000  # so the cores are asked twice a second
MESSAGES_MAX = 120  # a minute of them
ALONE = "serving, 0 connections; the link of net_memif0 is down"  # nobody is at the other end of the link

_PTRACE_DETACH = 17
_PTRACE_SEIZE = 0x4206
_PTRACE_INTERRUPT = 0x4207
_WALL = 0x40000000


class Manager:
    """The service manager's end of NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self.heard: list[dict[str, str]] = []  # one message each, in order

    def next(self, what: str) -> dict[str, str]:
        self._socket.settimeout(READY_LIMIT_S)
        try:
            text = self._socket.recv(4096).decode()
        except TimeoutError:
            raise LabError(f"{what}: nothing in {READY_LIMIT_S} s; heard before: {self.heard[-5:]}") from None
        message = dict(line.split("=", 1) for line in text.split("\n"))
        self.heard.append(message)
        return message

    def wait(self, what: str, wanted: Callable[[dict[str, str]], bool]) -> list[dict[str, str]]:
        """Messages up to and including the first that is wanted."""
        messages = [self.next(what)]
        while not wanted(messages[-1]):
            if len(messages) > MESSAGES_MAX:
                raise LabError(f"{what}: not within {MESSAGES_MAX} messages, the last: {messages[-5:]}")
            messages.append(self.next(what))
        return messages

    def wait_ready(self) -> list[dict[str, str]]:
        return self.wait("READY=1", lambda message: "READY" in message)

    def wait_fed(self) -> list[dict[str, str]]:
        return self.wait("WATCHDOG=1", lambda message: "WATCHDOG" in message)

    def close(self) -> None:
        self._socket.close()


def managed(box: Box, **options: str) -> tuple[Gateway, Manager]:
    manager = Manager(box.directory / "notify")
    gateway = box.gateway(**options)
    gateway.env = dict(box.env, NOTIFY_SOCKET=str(manager.path), WATCHDOG_USEC=str(WATCHDOG_USEC))
    gateway.start()
    return gateway, manager


def tells_how_it_is(box: Box) -> None:
    gateway, manager = managed(box)
    ready = manager.wait_ready()
    expect_equal("first message", ready[0], {"STATUS": "starting DPDK"})
    expect_equal("READY", ready[-1], {"READY": "1", "STATUS": ALONE})
    for _ in range(3):
        manager.wait_fed()
    load = box.load(connections=2, seconds=60)
    manager.wait("connections in STATUS", lambda message: message.get("STATUS") == "serving, 2 connections")
    load.wait_connected()  # it has to know, too, or it says that it was never served
    gateway.signal(signal.SIGTERM)
    stopping = manager.wait("STOPPING=1", lambda message: "STOPPING" in message)
    told = {"STOPPING": "1", "EXTEND_TIMEOUT_USEC": "11000000", "STATUS": "draining 2 connections"}
    expect_equal("STOPPING", stopping[-1], told)
    expect_equal("exit status", gateway.finish(15), 0)
    load.result(20, status=1)
    manager.close()


def _ptrace(request: int, thread: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, thread, None, None) != 0:
        raise Skip(f"ptrace is not allowed here: {os.strerror(ctypes.get_errno())}")


def hung_core_starves_the_watchdog(box: Box) -> None:
    """The poll core's thread is held, all others go on. The one poll core is also the main thread, so its id is the process's."""
    gateway, manager = managed(box)
    manager.wait_ready()
    manager.wait_fed()
    thread = gateway.pid
    _ptrace(_PTRACE_SEIZE, thread)
    try:
        _ptrace(_PTRACE_INTERRUPT, thread)
        os.waitpid(thread, _WALL)
        until = manager.wait("STATUS of the hung core", lambda message: "has not turned" in message.get("STATUS", ""))
        # The answer to the question that was open when it was held, and at most one that was on its way.
        fed = sum("WATCHDOG" in message for message in until)
        expect(fed <= 2, f"{fed} times fed while the poll core hung")
        expect_equal("/healthz", _probe(gateway, "healthz")[0], 503)
        expect_equal("/readyz", _probe(gateway, "readyz")[0], 503)
        expect("does not turn" in _probe(gateway, "healthz")[1], "the probe does not say why")
    finally:
        _ptrace(_PTRACE_DETACH, thread)
    again = manager.wait_fed()
    expect_equal("what came before the watchdog was fed again", [m for m in again[:-1] if "STATUS" not in m], [])
    manager.wait("STATUS afterwards", lambda message: message.get("STATUS") == ALONE)
    expect("the poll core turns again" in gateway.output(), gateway.tail())
    # The answer of a moment ago is kept for a moment.
    gateway.wait_for(lambda: _probe(gateway, "healthz") == (200, "ok\n"), 20, "/healthz says ok")
    gateway.terminate()
    manager.close()


def another_process_feeds_no_watchdog(box: Box) -> None:
    """WATCHDOG_PID of somebody else: the variables were inherited, and are not for us."""
    manager = Manager(box.directory / "notify")
    gateway = box.gateway()
    gateway.env = dict(box.env, NOTIFY_SOCKET=str(manager.path), WATCHDOG_USEC=str(WATCHDOG_USEC), WATCHDOG_PID="1")
    gateway.start_ready()
    manager.wait_ready()
    gateway.terminate()
    manager.wait("STOPPING=1", lambda message: "STOPPING" in message)
    expect_equal("times fed", sum("WATCHDOG" in message for message in manager.heard), 0)
    manager.close()


def unusable_notify_socket(box: Box) -> None:
    """Worth a warning, not the service."""
    gateway = box.gateway()
    gateway.env = dict(box.env, NOTIFY_SOCKET=str(box.directory / "nobody"))
    gateway.start_ready()
    expect("nobody: No such file or directory" in gateway.output(), gateway.tail())
    gateway.terminate()


def _reload(gateway: Gateway, manager: Manager) -> None:
    gateway.signal(signal.SIGHUP)
    messages = manager.wait("READY=1 after a reload", lambda message: "READY" in message)
    reloading = [message for message in messages if "RELOADING" in message]
    expect_equal("RELOADING messages", len(reloading), 1)
    expect(int(reloading[0]["MONOTONIC_USEC"]) > 0, f"{reloading[0]}")


def json_lines(box: Box) -> None:
    """Every line of a gateway that logs JSON is an object, from the start to the end, with the fields of what it is about; journald
    is told priorities when it listens."""
    gateway = box.gateway(extra='[log]\nformat = "json"\n')
    gateway.start()
    gateway.wait_for_line(r'"message":"ready, instance ', 30)
    box.load(seconds=1).result()
    gateway.terminate()
    lines = [json.loads(line) for line in gateway.output().splitlines()]
    in_each = ["time", "level", "instance", "message"]
    expect(all(list(line)[:4] == in_each for line in lines), str(lines))
    accepted = next(line for line in lines if " accepted: " in line["message"])
    ended = next(line for line in lines if " ended: " in line["message"])
    of_both = ["client", "client_port", "listener_port", "backend", "result", "wire", "local_qpn", "remote_qpn"]
    inline = ["inline_send_bytes", "inline_receive_bytes", "remote_invalidation"]
    expect_equal("what a connection begins with", list(accepted), in_each + of_both + ["path_mtu"] + inline)
    expect_equal("what it ends with", list(ended), in_each + of_both + ["calls"])
    for line, result in ((accepted, "accepted"), (ended, "closed_by_peer")):
        found = [line[name] for name in ("client", "listener_port", "backend", "result", "wire")]
        expect_equal("the connection", found, ["10.9.0.2", 20049, "bench", result, "RoCE"])
        numbers = f"QPN {line['local_qpn']:#08x} <-> {line['remote_qpn']:#08x}"
        expect(numbers in line["message"], f"{line}")
    expect(ended["calls"] > 0 and f" {ended['calls']} calls answered" in ended["message"], f"{ended}")
    expect_equal("the last line", lines[-1]["message"], "stopped")
    expect_equal("what it has", list(lines[-1]), in_each)
    told = box.gateway("told", extra='[log]\nformat = "journal"\n')
    told.start_ready()
    told.terminate()
    expect("\n<6>stopped" in told.output(), told.output())


def reload_takes_the_log_level(box: Box) -> None:
    gateway, manager = managed(box)
    manager.wait_ready()
    config = Path(gateway.argv[-1])
    text = config.read_text()
    first = gateway.metrics().total("causeway_config_last_reload_timestamp_seconds")
    config.write_text(text + '[log]\nlevel = "error"\n')
    _reload(gateway, manager)
    expect("these changes wait" not in gateway.output(), gateway.tail())
    # Where the level is error, a connection is not worth a line.
    box.load(seconds=1).result()
    expect(" accepted: " not in gateway.output(), gateway.tail())
    config.write_text(text)
    _reload(gateway, manager)
    gateway.wait_for_line(r"gateway\.toml read again$", 10)
    box.load(seconds=1).result()
    gateway.wait_for_line(r" accepted: ", 10)
    metrics = gateway.metrics()
    expect_equal("last reload", metrics.total("causeway_config_last_reload_successful"), 1)
    expect(metrics.total("causeway_config_last_reload_timestamp_seconds") >= first, "the time of the reload went back")
    gateway.terminate()
    manager.close()


def reload_names_what_waits(box: Box) -> None:
    gateway, manager = managed(box)
    manager.wait_ready()
    config = Path(gateway.argv[-1])
    config.write_text(config.read_text().replace("mtu = 4500", "mtu = 1500") + "[limits]\nconnections_max = 7\n")
    _reload(gateway, manager)
    gateway.wait_for_line(r"these changes wait for a restart: port\[0\]\.mtu, limits\.connections_max$", 10)
    gateway.terminate()
    manager.close()


def reload_of_a_broken_file(box: Box) -> None:
    """The gateway goes on with what it has, and says so wherever an operator may look."""
    gateway, manager = managed(box)
    manager.wait_ready()
    config = Path(gateway.argv[-1])
    text = config.read_text()
    config.write_text(text.replace("credits", "credist"))
    _reload(gateway, manager)
    expect("the last reload was refused" in manager.heard[-1]["STATUS"], f"{manager.heard[-1]}")
    for words in ("did you mean 'credits'", "the gateway goes on as it was"):
        expect(words in gateway.output(), gateway.tail())
    expect_equal("last reload", gateway.metrics().total("causeway_config_last_reload_successful"), 0)
    expect_equal("wrong answers", box.load(seconds=1).result()["wrong"], 0)
    config.write_text(text)
    _reload(gateway, manager)
    expect_equal("last reload", gateway.metrics().total("causeway_config_last_reload_successful"), 1)
    gateway.terminate()
    manager.close()


def _probe(gateway: Gateway, page: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{gateway.metrics_address}/{page}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ready_means_one_thing(box: Box) -> None:
    """No link, a reload that was refused, a backend that is down: each shows wherever somebody looks, and nowhere otherwise."""
    dead = free_tcp_address()
    gateway, manager = managed(
        box, extra=f'[[listener]]\nbackend = "dead"\nport = 20050\n[[backend]]\nname = "dead"\naddress = "{dead}"'
    )
    manager.wait_ready()

    def said() -> dict[str, Any]:
        """Of each place: whether it is ready, and what is said about it."""
        status, (code, probe) = box.ctl_json(gateway, "status"), _probe(gateway, "readyz")
        page = json.loads(_probe(gateway, "api/snapshot")[1])
        own = status["reason"], *status["warnings"]
        return {
            "status": (status["ready"], " ".join(own)),
            "page": (page["ready"], " ".join([page["reason"], *page["warnings"]])),
            "readyz": (code == 200, probe),
            "metric": (gateway.metrics().total("causeway_ready") == 1, None),
            "words": ("not ready" not in box.ctl(gateway, "status"), box.ctl(gateway, "status")),
        }

    def expect_everywhere(ready: bool, words: tuple[str, ...], but_not: tuple[str, ...] = ()) -> None:
        def holds() -> bool:
            return all(
                place[0] == ready
                and (
                    place[1] is None or all(word in place[1] for word in words) and not any(word in place[1] for word in but_not)
                )
                for place in said().values()
            )

        try:
            wait_until(holds, 20, "one answer")
        except LabError:
            raise LabError(f"not everywhere {ready} {words}: {said()}") from None
        last = [message["STATUS"] for message in manager.heard if "STATUS" in message][-1]
        if not all(word in last for word in words):  # else nothing new is said
            manager.wait("STATUS", lambda message: all(word in message.get("STATUS", "") for word in words))

    link, backend, reload_refused = "the link of net_memif0 is down", "backend dead is down", "the last reload was refused"
    expect_everywhere(False, (backend, link))
    load = box.load(connections=1, seconds=300)
    load.wait_connected()
    expect_everywhere(False, (backend,), (link,))
    with tcp_server(dead):
        expect_everywhere(True, (), (backend, link, reload_refused))
        config = box.directory / "gateway.toml"
        text = config.read_text()
        config.write_text(text.replace("credits", "credist"))
        expect_equal("exit status of the reload", box.run(box.causewayctl, "--socket", gateway.admin, "reload").returncode, 4)
        expect_everywhere(True, (reload_refused,), (backend, link))
        config.write_text(text)
        box.ctl(gateway, "reload")
        expect_everywhere(True, (), (backend, link, reload_refused))
    load.stop()
    gateway.terminate()
    manager.close()


def probes_of_a_serving_gateway(box: Box) -> None:
    gateway = box.gateway()
    gateway.start_ready()
    box.load(connections=1, seconds=60).wait_connected()
    for page in ("healthz", "readyz"):
        gateway.wait_for(lambda at=page: _probe(gateway, at) == (200, "ok\n"), 20, f"/{page} says ok")
    gateway.terminate()


CASES = [
    ("a service manager hears READY, STATUS, WATCHDOG and STOPPING", tells_how_it_is),
    ("a poll core that hangs starves the watchdog and fails the probes", hung_core_starves_the_watchdog),
    ("a watchdog of another process changes nothing", another_process_feeds_no_watchdog),
    ("a notify socket that nobody listens on is a warning", unusable_notify_socket),
    ("log lines are JSON when the configuration says so", json_lines),
    ("SIGHUP takes a new log level", reload_takes_the_log_level),
    ("SIGHUP names the changes that wait for a restart", reload_names_what_waits),
    ("SIGHUP with a broken file leaves the gateway as it was", reload_of_a_broken_file),
    ("ready means one thing wherever it is said", ready_means_one_thing),
    ("/healthz and /readyz of a gateway that serves say ok", probes_of_a_serving_gateway),
]
