"""Links and addresses of the sandbox. There is no undo: the namespace takes them with it."""

import subprocess

# The control network: guest and host by a plain tap; mountd is reached here for NFSv3: its calls do not pass through the gateway.
CONTROL_HOST = "10.8.0.254"
CONTROL_HOST_V6 = "fd08::254"

# The RoCE network: the gateway (or what stands in its place) is .1, guests from .2 on.
GATEWAY = "10.9.0.1"
GATEWAY_V6 = "fd09::1"

# The kernel's interface where it shares the gateway's address: a veth's end, or the tap of the exception path.
SHARED = "shared0"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def set_up() -> None:
    """The control bridge, to which every guest's second NIC is attached."""
    ip("link", "set", "lo", "up")
    ip("link", "add", "ctl", "type", "bridge")
    ip("address", "add", f"{CONTROL_HOST}/24", "dev", "ctl")
    ip("address", "add", f"{CONTROL_HOST_V6}/64", "dev", "ctl", "nodad")
    ip("link", "set", "ctl", "up")


def add_tap(name: str, mtu: int, bridge: str = "", queues: int = 1) -> None:
    """A tap without addresses: the kernel of this machine must not answer on it in the gateway's place. With several `queues`, a program may
    open it as often."""
    ip("tuntap", "add", "dev", name, "mode", "tap", *(["multi_queue"] if queues > 1 else []))
    _no_ipv6(name)
    if bridge:
        ip("link", "set", name, "master", bridge)
    ip("link", "set", name, "mtu", str(mtu), "up")


def add_kernel_tap(name: str, mtu: int, *addresses: str) -> None:
    """A tap on which the kernel of this machine is at home, with its TCP."""
    ip("tuntap", "add", "dev", name, "mode", "tap")
    ip("link", "set", name, "mtu", str(mtu), "up")
    for address in addresses:
        ip("address", "add", address, "dev", name, *(["nodad"] if ":" in address else []))


def add_veth(one: str, other: str, mtu: int) -> None:
    """A cable between two programs, without addresses either."""
    ip("link", "add", one, "type", "veth", "peer", "name", other)
    for name in (one, other):
        _no_ipv6(name)
        ip("link", "set", name, "mtu", str(mtu), "up")


def share_with_kernel(how: str, mtu: int) -> None:
    """The kernel gets the gateway's addresses. af_xdp: on a veth's end, whose other end is on a bridge with the guest's tap, since
    AF_XDP does not start on taps. exception: on a tap that the gateway opens; the guest's tap is the gateway's device. siw: on the
    guest's tap itself, since the gateway's wire is the kernel's TCP."""
    if how == "siw":
        add_kernel_tap("roce-guest", mtu, f"{GATEWAY}/24", f"{GATEWAY_V6}/64")
        return
    # Else the kernel answers ARP on the bridge as well, with the bridge's MAC address, and RoCE packets to that never meet the program.
    _write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1")
    if how == "af_xdp":
        add_bridge("roce", mtu)
        add_tap("roce-guest", mtu, bridge="roce")
        # One queue each way: an AF_XDP socket hears the packets of one receive queue, and a veth spreads its flows over all.
        ip(
            "link",
            "add",
            SHARED,
            "numrxqueues",
            "1",
            "numtxqueues",
            "1",
            "type",
            "veth",
            "peer",
            "name",
            "roce-port",
            "numrxqueues",
            "1",
            "numtxqueues",
            "1",
        )
        _no_ipv6("roce-port")
        ip("link", "set", "roce-port", "master", "roce", "mtu", str(mtu), "up")
    else:
        add_tap("roce-guest", mtu)
        ip("tuntap", "add", "dev", SHARED, "mode", "tap")
    ip("link", "set", SHARED, "mtu", str(mtu), "up")
    ip("address", "add", f"{GATEWAY}/24", "dev", SHARED)
    ip("address", "add", f"{GATEWAY_V6}/64", "dev", SHARED, "nodad")


def add_bridge(name: str, mtu: int) -> None:
    ip("link", "add", name, "type", "bridge", "mcast_snooping", "0")
    _no_ipv6(name)
    ip("link", "set", name, "mtu", str(mtu), "up")


def remove(name: str) -> None:
    subprocess.run(["ip", "link", "del", name], check=False, stderr=subprocess.DEVNULL)


def _no_ipv6(name: str) -> None:
    _write(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "1")


def _write(path: str, value: str) -> None:
    with open(path, "w") as setting:
        setting.write(value)
