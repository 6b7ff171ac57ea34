"""The RDMA device under causewayd goes and comes, in the guest where it serves on that: removed and added again, its port down and up.

The kernel waits with the removal until nobody has the device open, and tells whom it told last. So a gateway that did not let go of it
would keep `rdma link delete`, and with it whoever takes the driver away, waiting for ever.
"""

import time
from pathlib import Path

from lab import gateway, network
from lab.daemon import LabError, wait_until
from lab.ganesha import Ganesha
from lab.gateway_guest import GatewayGuest
from lab.guest import Guest, Nic
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


def add(rig: Rig) -> None:
    """A device of the same name and addresses: the client is back on it, and nobody restarted anything."""
    server = _server(rig)
    server.guest.check("rxe_up")
    wait_until(lambda: server.metrics().total("causeway_verbs_connections") == 1, BACK_WITHIN, "the client is back", interval=1)
    _look(rig, "with a new device")


def port_down(rig: Rig) -> None:
    before = _events(rig, "port_down")
    _server(rig).guest.check("/sbin/ip link set roce0 down")
    _wait_for_event(rig, "port_down", before)
    _logged(rig, f"RDMA device {rig.wire.verbs}: port 1 is down")
    if _server(rig).metrics().total("causeway_rdma_port_active") != 0:
        raise LabError("causeway_rdma_port_active of a port that is down")


def port_up(rig: Rig) -> None:
    """With the IPv6 address that the kernel has taken from it meanwhile. Rxe (read and seen in Linux 6.1) has no route then, and lets work fail
    for that at once: so connections end, the kernel's goodbye is such work, too, and the queue pair of the connection manager hears
    nothing any more (`rxe_qp_error` sets its responder to Error, ib_mad sets back its requester alone). Only a new device helps.
    """
    before = _events(rig, "port_up")
    _server(rig).guest.check("/sbin/ip link set roce0 up && /sbin/ip address add fd09::1/64 dev roce0 nodad")
    _wait_for_event(rig, "port_up", before)
    wait_until(lambda: _server(rig).metrics().total("causeway_rdma_port_active") == 1, 30, "the port is ACTIVE again", interval=1)
    _look(rig, "with its port up again")
    _server(rig).guest.check("rdma link delete rxe0 && rxe_up", REMOVED_WITHIN)


IDLE_CLIENTS = 64
AT_ONCE = 8  # of more an emulated rxe makes no queue pair before their requests are too old
IDLE_S = 60


def _threads(server: GatewayGuest) -> dict[str, float]:
    """Seconds of each thread of the gateway, by its name and number, as the guest's kernel counts them."""
    show = "echo $(cat $task/comm | tr ' ' -)-$task $(cat $task/schedstat)"
    lines = server.guest.check(f"cd /proc/{server.pid()}/task && for task in *; do {show}; done").splitlines()
    return {line.split()[0]: int(line.split()[1]) / 1e9 for line in lines}


def _quiet_minute(guest: Guest) -> float:
    """Seconds that the guest uses of this machine's processors when nobody asks it anything."""
    time.sleep(5)
    before = guest.cpu_seconds()
    time.sleep(IDLE_S)
    return guest.cpu_seconds() - before


def idle(logs: Path) -> None:
    """Clients that are connected and do not call. Prints what the gateway, which sleeps, uses of the guest's processor, and what the whole
    guest uses of this machine with it and without: the guest's own count has the times in it when this machine did something else.
    Emulated, everything takes ten times as long and more."""
    network.add_bridge("roce", 1500)
    network.add_tap("roce-guest", 1500, bridge="roce")
    backend, client = Ganesha(logs), Guest(Nic("tap", 1500, tap="roce-guest"), logs)
    server = GatewayGuest(logs, 1500, rdma="rxe0", number=1, connections_max=2 * IDLE_CLIENTS, backend_extra="")
    try:
        backend.start()
        server.start()
        client.start()
        for there in range(AT_ONCE, IDLE_CLIENTS + 1, AT_ONCE):
            client.check(f"connect_many {network.GATEWAY} {gateway.PORT} {AT_ONCE}")
            wait_until(
                lambda there=there: server.metrics().total("causeway_connections") == there, 60, f"{there} clients", interval=1
            )
        before = _threads(server)
        with_clients = _quiet_minute(server.guest)
        spent = {name: seconds - before.get(name, 0) for name, seconds in _threads(server).items()}
        if server.metrics().total("causeway_connections") != IDLE_CLIENTS:
            raise LabError("not all clients were there in the end")
        client.stop()
        server.kill()
        without = _quiet_minute(server.guest)
        print(f"# the guest used {with_clients:.2f} s of {IDLE_S} s with {IDLE_CLIENTS} idle clients, {without:.2f} s without")
        threads = sorted(spent.items(), key=lambda each: -each[1])
        said = ", ".join(f"{name} {seconds:.2f}" for name, seconds in threads[:4])
        print(f"# the gateway {sum(spent.values()):.2f} s by its guest's count: {said}", flush=True)
    finally:
        client.stop()
        server.stop()
        backend.stop()
        for link in ("roce-guest", "roce-server", "roce"):
            network.remove(link)
