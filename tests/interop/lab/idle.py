"""What a gateway costs whose clients are connected and do not call: on each wire, in a guest, where nothing else runs.

    client guest 10.9.0.2 ── bridge roce ── gateway guest: causewayd 10.9.0.1 ── control network ── Ganesha
"""

import time
from pathlib import Path
from typing import Callable

from lab import gateway, network
from lab.daemon import LabError, wait_until
from lab.gateway_guest import GatewayGuest, in_front_of
from lab.guest import Guest

CLIENTS = 64
AT_ONCE = 8  # of more an emulated device makes no queue pair before their requests are too old
IDLE_S = 60
MTU = 1500
WIRES = ("verbs-rxe", "verbs-siw", "roce", "iwarp")


def _server(wire: str, logs: Path) -> GatewayGuest:
    more = {"connections_max": CLIENTS + AT_ONCE, "backend_extra": ""}
    if wire.startswith("verbs-"):
        return GatewayGuest(logs, MTU, rdma=f"{wire[-3:]}0", number=1, **more)
    if wire == "iwarp":
        return GatewayGuest(logs, MTU, number=1, **more)
    device = "net_af_packet0,iface=roce0,framesz=8192,blocksz=65536,framecnt=256"
    return GatewayGuest(logs, MTU, device, f'addresses = ["{network.GATEWAY}/24"]', **more)


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


def idle(wire: str) -> Callable[[Path], None]:
    """Prints what the gateway, which sleeps, uses of the guest's processor, and what the whole guest uses of this machine with it and
    without: the guest's own count has the times in it when this machine did something else. Emulated, everything takes ten times as
    long and more."""

    def body(logs: Path) -> None:
        server = _server(wire, logs)
        with in_front_of(server, logs, MTU, iwarp=wire in ("verbs-siw", "iwarp")) as (_, client):
            _measure(wire, client, server)

    return body


def _measure(wire: str, client: Guest, server: GatewayGuest) -> None:
    for there in range(AT_ONCE, CLIENTS + 1, AT_ONCE):
        client.check(f"connect_many {network.GATEWAY} {gateway.PORT} {AT_ONCE}")
        wait_until(
            lambda there=there: server.metrics().total("causeway_connections") == there, 60, f"{there} clients", interval=1
        )
    before = _threads(server)
    with_clients = _quiet_minute(server.guest)
    spent = {name: seconds - before.get(name, 0) for name, seconds in _threads(server).items()}
    if server.metrics().total("causeway_connections") != CLIENTS:
        raise LabError("not all clients were there in the end")
    client.stop()
    server.kill()
    without = _quiet_minute(server.guest)
    threads = sorted(spent.items(), key=lambda each: -each[1])
    said = ", ".join(f"{name} {seconds:.2f}" for name, seconds in threads[:4])
    print(f"# {wire}: {CLIENTS} idle clients, {IDLE_S} s: the gateway {sum(spent.values()):.2f} s by its guest's count ({said})")
    print(f"# {wire}: the guest used {with_clients:.2f} s of this machine, {without:.2f} s without the gateway", flush=True)
