"""The RDMA device under causewayd goes and comes, in the guest where it serves on that: removed and added again, its port down and up.

The kernel waits with the removal until nobody has the device open, and tells whom it told last. So a gateway that did not let go of it
would keep `rdma link delete`, and with it whoever takes the driver away, waiting for ever.
"""

import json
import urllib.error
import urllib.request

from lab.daemon import LabError, wait_until
from lab.gateway_guest import GatewayGuest
from lab.nic import VERSIONS, churn
from lab.rig import Rig

# What software needs to destroy is little; the guest is slow.
REMOVED_WITHIN = 60
BACK_WITHIN = 240
EVENTS = "causeway_verbs_device_events_total"


def _server(rig: Rig) -> GatewayGuest:
    assert isinstance(rig.gateway, GatewayGuest)
    return rig.gateway


def _events(rig: Rig, event: str) -> float:
    return _server(rig).metrics().total(EVENTS, event=event)


def _wait_for_event(rig: Rig, event: str, before: float) -> None:
    """It is counted once, whoever it concerns, and the trace has it."""
    wait_until(lambda: _events(rig, event) > before, 30, f"{event} is counted", interval=0.5)
    if _events(rig, event) != before + 1:
        raise LabError(f"{event} was counted {_events(rig, event) - before:g} times")
    if event not in _server(rig).ctl("trace"):
        raise LabError(f"causewayctl trace has no {event}")


def _logged(rig: Rig, text: str) -> None:
    if text not in _server(rig).log():
        raise LabError(f"the log does not say: {text}")


def _look(rig: Rig, moment: str) -> None:
    """What an operator sees is kept beside the logs."""
    server = _server(rig)
    parts = [f"==== {moment}", server.doctor()]
    for words in (("status",), ("connections",), ("qp",), ("trace",)):
        parts.append(f"-- causewayctl {' '.join(words)}\n" + server.ctl(*words))
    parts += [line for line in server.metrics().text.splitlines() if line.startswith(("causeway_verbs", "causeway_rdma"))]
    with (rig.logs / "operator.log").open("a") as log:
        log.write("\n".join(parts) + "\n")


def _page(rig: Rig, path: str) -> str:
    """Whatever its status is."""
    try:
        with urllib.request.urlopen(f"http://{_server(rig).guest.address}:9464{path}", timeout=20) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"


def _said(rig: Rig) -> dict[str, tuple[bool, str]]:
    """Whether the gateway is ready, and why not, wherever somebody looks."""
    status = json.loads(_server(rig).ctl("--json", "status"))
    words = _server(rig).ctl("status")
    probe = _page(rig, "/readyz")
    page = json.loads(_page(rig, "/api/snapshot"))
    return {
        "json": (status["ready"], status["reason"] + str(status["listeners"][0]["cut_off"])),
        "status": ("Not ready" not in words, words),
        "readyz": (not probe.startswith("503"), probe),
        "page": (page["ready"], page["reason"]),
        "metric": (_server(rig).metrics().total("causeway_ready") == 1, ""),
    }


def _expect_everywhere(rig: Rig, why: str = "") -> None:
    """Not ready for this reason; without one: ready."""

    def agree() -> bool:
        return all(ready == (not why) and (why in text or place == "metric") for place, (ready, text) in _said(rig).items())

    try:
        wait_until(agree, 60, "one answer", interval=1)
    except LabError:
        raise LabError(f"not everywhere {why or 'ready'}: {_said(rig)}") from None


def remove(rig: Rig) -> None:
    """The device is removed under its connections: the command comes back, and the gateway says what has happened and holds nothing of it."""
    server = _server(rig)
    before = _events(rig, "device_removed")
    server.guest.check(f"rdma link delete {rig.wire.verbs}", REMOVED_WITHIN)
    _wait_for_event(rig, "device_removed", before)
    server.metrics().lint()
    _logged(rig, f"RDMA device {rig.wire.verbs} has gone")
    wait_until(
        lambda: server.metrics().total("causeway_verbs_connections") == 0, 30, "no connection without a device", interval=0.5
    )
    held = server.guest.check(f"ls -l /proc/{server.pid()}/fd | grep uverbs || true").strip()
    if held:
        raise LabError(f"the gateway holds a device that is gone: {held}")
    _look(rig, "without its device")
    _expect_everywhere(rig, f"there is no RDMA device {rig.wire.verbs}")


def add(rig: Rig) -> None:
    """A device of the same name and addresses: the client is back on it, and nobody restarted anything."""
    server = _server(rig)
    server.guest.check(f"{server.guest.nic.rdma}_up")
    wait_until(lambda: server.metrics().total("causeway_verbs_connections") == 1, BACK_WITHIN, "the client is back", interval=1)
    _look(rig, "with a new device")
    _expect_everywhere(rig)


def port_down(rig: Rig) -> None:
    before = _events(rig, "port_down")
    _server(rig).guest.check("/sbin/ip link set roce0 down")
    _wait_for_event(rig, "port_down", before)
    _logged(rig, f"RDMA device {rig.wire.verbs}: port 1 is down")
    if _server(rig).metrics().total("causeway_rdma_port_active") != 0:
        raise LabError("causeway_rdma_port_active of a port that is down")
    _expect_everywhere(rig, f"port 1 of RDMA device {rig.wire.verbs} is DOWN")


def port_up(rig: Rig) -> None:
    """With the IPv6 address that the kernel has taken from it meanwhile. siw's connections are TCP's, and wait. Rxe (read and seen in Linux
    6.1) has no route, and lets work fail for that at once: so connections end, the kernel's goodbye is such work, too, and the queue pair
    of the connection manager hears nothing any more (`rxe_qp_error` sets its responder to Error, ib_mad sets back its requester alone).
    Only a new device helps.
    """
    before = _events(rig, "port_up")
    _server(rig).guest.check("/sbin/ip link set roce0 up && /sbin/ip address add fd09::1/64 dev roce0 nodad")
    _wait_for_event(rig, "port_up", before)
    wait_until(lambda: _server(rig).metrics().total("causeway_rdma_port_active") == 1, 30, "the port is ACTIVE again", interval=1)
    _look(rig, "with its port up again")
    _expect_everywhere(rig)
    if rig.wire.verbs == "rxe0":
        _server(rig).guest.check("rdma link delete rxe0 && rxe_up", REMOVED_WITHIN)


def cores(rig: Rig) -> None:
    """Several connections of one client: one core hears all requests, and each core has as many of the connections."""
    server = _server(rig)
    with rig.mounted_beside(VERSIONS) as places:
        churn(rig, places)
        after = server.metrics()
        after.lint()
        _look(rig, "connections on all cores")
    served = after.by_label("causeway_lcore_connections", "lcore")
    if sorted(served.values()) != [len(VERSIONS) / rig.wire.cores] * rig.wire.cores:
        raise LabError(f"{len(VERSIONS)} connections are served by cores as {served}")
    if failures := after.total("causeway_verbs_setup_failures_total"):
        raise LabError(f"{failures:g} requests failed")
    for version in VERSIONS:
        rig.backend.remove_tree(f"cores{version}")
