"""Two hosts on one wire, each a network namespace with strongSwan's daemon: the gateway's and a client's.

Kernels of test machines need no ESP: strongSwan's plugin kernel-libipsec does it in the daemon, in UDP, behind a TUN device. It has
tunnel mode only. A packet that has no SA is dropped there and brings none up, as it would with the kernel's own ESP.

What is on the wire is seen at the gateway's end and sent at the client's, by packet sockets.
"""

import ctypes
import os
import re
import socket
import struct
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional

from harness import ROOT, Box, Daemon, Gateway, Load, Skip, expect
from iwarp_peer import IwarpPeer
from lab.daemon import wait_until
from lab.gateway_config import gateway_config

POLICIES = ROOT / "deploy/ipsec"
CHARON = "/usr/sbin/charon-systemd"
PORT = 20049
CONNECTION = "nfs"  # and its child, in each file
WIRE, TUNNEL = "wire", "ipsec0"
# Longer than any case, however slow the machine: nothing is left over when the tests are killed.
NAMESPACE_SECONDS = 600
CLONE_NEWNET = 0x40000000
ETH_P_ALL, SO_RCVBUFFORCE, SOL_PACKET, PACKET_STATISTICS = 3, 33, 263, 6
UDP, TCP, ESP = 17, 6, 50
IKE, IKE_AND_ESP = 500, 4500
IKE_MARKER = bytes(4)  # in place of an SPI, before IKE messages at port 4500

# kernel-libipsec comes before kernel-netlink, which then does routes and addresses only.
PLUGINS = (
    "random nonce openssl x509 pem pkcs1 pkcs8 pubkey revocation constraints hmac kdf gcm aes sha1 sha2 xcbc "
    "kernel-libipsec kernel-netlink socket-default vici"
)
STRONGSWAN_CONF = """\
charon-systemd {{
  load = {plugins}
  plugins {{
    vici {{ socket = unix://{directory}/vici }}
    kernel-libipsec {{ allow_peer_ts = yes }}
    kernel-netlink {{ fwmark = !0x42 }}
    socket-default {{ fwmark = 0x42 }}
  }}
  filelog {{ all {{
    path = {directory}/charon.log
    default = 1
    flush_line = yes
  }} }}
}}
swanctl {{
  load = pem pkcs1 pkcs8 x509 pubkey openssl random
  plugins {{ vici {{ socket = unix://{directory}/vici }} }}
}}
"""
DIRECTORIES = "conf.d bliss ecdsa pkcs12 pkcs8 private pubkey rsa x509 x509aa x509ac x509ca x509crl x509ocsp"


def require_ipsec() -> None:
    if os.geteuid() != 0:
        raise Skip("takes root")
    if not Path("/dev/net/tun").exists():
        raise Skip("there is no /dev/net/tun")


def secret() -> str:
    return os.urandom(32).hex()


class Host:
    """One end of the wire."""

    def __init__(self, box: Box, name: str, address: str) -> None:
        self.box, self.name, self.address = box, name, address
        self.directory = box.directory / name
        self.swanctl_directory = self.directory / "swanctl"
        for directory in DIRECTORIES.split():
            (self.swanctl_directory / directory).mkdir(parents=True)
        (self.swanctl_directory / "swanctl.conf").write_text("include conf.d/*.conf\n")
        self._conf = self.directory / "strongswan.conf"
        self._conf.write_text(STRONGSWAN_CONF.format(directory=self.directory, plugins=PLUGINS))
        self._env = dict(box.env, STRONGSWAN_CONF=str(self._conf), SWANCTL_DIR=str(self.swanctl_directory))
        self._namespace = Daemon(
            f"{name}-host", ["unshare", "--net", "sleep", str(NAMESPACE_SECONDS)], self.directory / "namespace.log"
        )
        box.programs.append(self._namespace)
        self._namespace.start()
        own = os.readlink("/proc/self/ns/net")
        self._namespace.wait_for(lambda: os.readlink(self.network) != own, 10, "a network namespace")
        self.run("ip", "link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        return self._namespace.pid

    @property
    def network(self) -> str:
        return f"/proc/{self.pid}/ns/net"

    def enter(self, *argv: object) -> list[str]:
        return ["nsenter", f"--net={self.network}", "--", *(str(word) for word in argv)]

    def run(self, *argv: object) -> str:
        done = self.box.run(*self.enter(*argv), timeout=60)
        expect(done.returncode == 0, f"{self.name}: {' '.join(map(str, argv))}: {done.stdout}{done.stderr}")
        return done.stdout

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets that this thread makes meanwhile are of this host, and stay so."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/self/ns/net") as back, open(self.network) as network:
            expect(libc.setns(network.fileno(), CLONE_NEWNET) == 0, f"setns: {os.strerror(ctypes.get_errno())}")
            try:
                yield
            finally:
                libc.setns(back.fileno(), CLONE_NEWNET)

    def start_ike(self) -> None:
        # Its own log is the file; what it says without one is said before that is open.
        daemon = Daemon(f"{self.name}-charon", self.enter(CHARON), self.directory / "charon.out", self._env)
        self.box.programs.append(daemon)
        daemon.start()
        daemon.wait_for(lambda: (self.directory / "vici").exists() and "spawning" in self.log(), 10, "vici socket")

    def log(self) -> str:
        path = self.directory / "charon.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_for_log(self, pattern: str, what: str, count: int = 1) -> None:
        wait_until(lambda: len(re.findall(pattern, self.log())) >= count, 10, f"{self.name}: {what}", interval=0.02)

    def try_swanctl(self, *words: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["swanctl", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=60,
            env=self._env,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def swanctl(self, *words: object) -> str:
        done = self.try_swanctl(*words)
        expect(done.returncode == 0, f"{self.name}: swanctl {' '.join(map(str, words))}: {done.stdout}{done.stderr}")
        return done.stdout

    def take_policy(self, policy: str, psk: str = "", **changes: str) -> None:
        self.write_policy(policy, psk, **changes)
        self.swanctl("--load-all")

    def write_policy(self, policy: str, psk: str = "", **changes: str) -> None:
        """A file of deploy/ipsec as it is, or with its settings changed: key = the new value, wherever it has the key."""
        text = (POLICIES / policy).read_text()
        for key, value in changes.items():
            text, count = re.subn(rf"^( *{key} =) .*$", lambda found: f"{found[1]} {value}", text, flags=re.MULTILINE)
            expect(count > 0, f"{policy} has no {key}")
        (self.swanctl_directory / "conf.d/causeway.conf").write_text(text)
        if psk:
            secrets = self.swanctl_directory / "conf.d/secrets.conf"
            secrets.write_text((POLICIES / "secrets.conf").read_text().replace("REPLACE THIS", psk))
            secrets.chmod(0o600)

    def initiate(self) -> None:
        self.swanctl("--initiate", "--child", CONNECTION, "--timeout", 20)

    def sas(self) -> str:
        return self.swanctl("--list-sas", "--raw")

    def spi_in(self) -> str:
        """Of the SA of phase 2 that is in use; "" without one."""
        found = re.search(r"state=INSTALLED [^{}]*spi-in=(\w+)", self.sas())
        return found[1] if found else ""

    def bytes_in(self) -> int:
        return sum(map(int, re.findall(r"bytes-in=(\d+)", self.sas())))


class Pair:
    gateway: Gateway

    def __init__(self, box: Box, ike: bool = True) -> None:
        require_ipsec()
        self.box = box
        self.server = Host(box, "server", "192.0.2.1")
        self.client = Host(box, "client", "192.0.2.2")
        self.server.run("ip", "link", "add", WIRE, "type", "veth", "peer", "name", WIRE, "netns", self.client.pid)
        for host in self.hosts:
            host.run("ip", "link", "set", WIRE, "up")
            host.run("ip", "address", "add", f"{host.address}/24", "dev", WIRE)
        for host in self.hosts if ike else ():
            host.start_ike()

    @property
    def hosts(self) -> tuple[Host, Host]:
        return self.server, self.client

    def take_policies(self, profile: str, psk: str = "", **changes: str) -> None:
        for host in self.hosts:
            host.take_policy(f"{profile}-{host.name}.conf", psk, **changes)

    def only_ipsec(self) -> None:
        for host in self.hosts:
            host.run("nft", "-f", POLICIES / "only-ipsec.nft")

    def refused_in_cleartext(self, host: Host) -> int:
        found = re.search(r"counter packets (\d+)", host.run("nft", "list", "chain", "inet", "only_ipsec", "cleartext"))
        return int(found[1]) if found else 0

    def start_gateway(self) -> Gateway:
        config = self.box.directory / "gateway.toml"
        admin = f"{self.box.directory}/admin"
        config.write_text(
            gateway_config(
                instance=f"ipsec-{os.getpid()}",
                poll_lcores=max(os.sched_getaffinity(0)),
                dataplane='idle = "sleep"',
                listener=f'transport = "iwarp"\naddress = "{self.server.address}"\nport = {PORT}\nreverse_credits = 8',
                admin=admin,
                metrics="127.0.0.1:9464",
            )
        )
        argv = self.server.enter(self.box.causewayd, "--config", config)
        self.gateway = Gateway("gateway", argv, self.box.directory / "gateway.log", self.box.env)
        self.gateway.admin = admin
        self.box.programs.append(self.gateway)
        self.gateway.start_ready()
        return self.gateway

    def metric(self, name: str) -> float:
        """Over all its series, by the admin socket: the metrics address is in the gateway's namespace."""
        values = self.box.ctl_json(self.gateway, "stats", name)["stats"]
        return sum(value for series, value in values.items() if series.partition("{")[0] == name)

    def rpcs(self, peer: IwarpPeer) -> int:
        """Calls that the gateway has counted on this peer's connection."""
        rows = self.box.ctl_json(self.gateway, "connections")["connections"]
        return next(row["rpcs"] for row in rows if row["peer_port"] == peer.port)

    def load(self, *words: object, to: Optional[str] = None, port: int = PORT, name: str = "load") -> Load:
        json_path = self.box.directory / f"{name}.json"
        json_path.unlink(missing_ok=True)
        own = ["--transport", "iwarp", "--server", to or self.server.address, "--port", port, "--warmup", 0, "--json", json_path]
        argv = self.client.enter("stdbuf", "-oL", self.box.causeway_load, *own, "--lcore", min(os.sched_getaffinity(0)), *words)
        load = Load(name, argv, self.box.directory / f"{name}.log", self.box.env)
        load.json_path = json_path
        self.box.programs.append(load)
        load.start()
        return load

    def peer(self) -> IwarpPeer:
        with self.client.inside():
            peer = IwarpPeer(self.server.address, PORT)
        peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return peer


class Frame:
    """An Ethernet frame, as far as the cases look into it."""

    def __init__(self, data: bytes, inbound: bool) -> None:
        self.data, self.inbound = data, inbound
        self.is_ipv4 = data[12:14] == b"\x08\x00"
        self.protocol = data[23] if self.is_ipv4 else -1
        self.start = 14 + 4 * (data[14] & 15) if self.is_ipv4 else 14
        self.ports = struct.unpack(">HH", data[self.start : self.start + 4]) if self.protocol in (UDP, TCP) else (0, 0)

    @property
    def udp_payload(self) -> bytes:
        return self.data[self.start + 8 :]

    @property
    def is_ike(self) -> bool:
        return self.protocol == UDP and (IKE in self.ports or (IKE_AND_ESP in self.ports and self.udp_payload[:4] == IKE_MARKER))

    @property
    def is_esp(self) -> bool:
        return self.protocol == ESP or (
            self.protocol == UDP and IKE_AND_ESP in self.ports and not self.is_ike and len(self.udp_payload) > 1
        )

    @property
    def ike_message(self) -> bytes:
        return self.udp_payload[4 if IKE_AND_ESP in self.ports else 0 :]


class Tap:
    """What passes an interface of the gateway's host, in both directions; on the TUN device, packets without a link header."""

    def __init__(self, host: Host, interface: str = WIRE) -> None:
        with host.inside():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 128 << 20)
        self._socket.bind((interface, ETH_P_ALL))
        self._socket.setblocking(False)

    def packets(self) -> list[tuple[bytes, bool]]:
        """Those since the last time, each with whether it came in."""
        found = []
        while True:
            try:
                data, (_, _, kind, _, _) = self._socket.recvfrom(1 << 17)
            except BlockingIOError:
                break
            found.append((data, kind != socket.PACKET_OUTGOING))
        lost = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        expect(lost == 0, f"the tap has lost {lost} packets")
        return found

    def frames(self) -> list[Frame]:
        return [Frame(data, inbound) for data, inbound in self.packets()]

    def wait_for(self, wanted, what: str) -> Frame:
        """The next frame that is wanted."""
        found: list[Frame] = []

        def seen() -> bool:
            found.extend(frame for frame in self.frames() if wanted(frame))
            return bool(found)

        wait_until(seen, 10, what, interval=0.005)
        return found[0]

    def close(self) -> None:
        self._socket.close()


def checksum(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


FORGED_DSCP = 10  # how what a case sends is told from what the client's host sends


def forged(frame: bytes) -> bytes:
    """The frame with our mark, and with checksums that the sender's device had still to make."""
    data = bytearray(frame)
    start = 14 + 4 * (data[14] & 15)
    data[15] = FORGED_DSCP << 2
    data[24:26] = bytes(2)
    data[24:26] = struct.pack(">H", checksum(bytes(data[14:start])))
    if data[23] == UDP:
        data[start + 6 : start + 8] = bytes(2)  # none, as IPv4 allows
    else:
        data[start + 16 : start + 18] = bytes(2)
        pseudo = bytes(data[26:34]) + struct.pack(">BBH", 0, data[23], len(data) - start)
        data[start + 16 : start + 18] = struct.pack(">H", checksum(pseudo + bytes(data[start:])))
    return bytes(data)


class Injector:
    """Somebody on the path, who sends whole frames towards the gateway."""

    def __init__(self, pair: Pair) -> None:
        with pair.client.inside():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.bind((WIRE, 0))

    def send(self, frame: bytes) -> None:
        self._socket.send(forged(frame))

    def close(self) -> None:
        self._socket.close()


@contextmanager
def only_forged(pair: Pair) -> Iterator[None]:
    """Meanwhile the gateway's host takes of ESP only what an Injector sends."""
    rules = (
        "table inet held",
        "chain inet held input { type filter hook prerouting priority -300; }",
        f"rule inet held input iifname {WIRE} udp dport {IKE_AND_ESP} ip dscp != {FORGED_DSCP} drop",
    )
    pair.server.run("nft", "; ".join(f"add {rule}" for rule in rules))
    try:
        yield
    finally:
        pair.server.run("nft", "delete table inet held")


def wait_a_turn(seconds: float = 0.3) -> None:
    """For what must not come there is nothing to wait for."""
    time.sleep(seconds)


# strongSwan finds a revocation list by the authority's key identifier in it.
CA_CONFIG = """\
[ca]
default_ca = own
[own]
database = {directory}/index.txt
serial = {directory}/serial
crlnumber = {directory}/crlnumber
new_certs_dir = {directory}
private_key = {directory}/ca.key
certificate = {directory}/ca.pem
default_md = sha256
default_days = 2
default_crl_days = 1
policy = any
copy_extensions = copy
crl_extensions = list
[list]
authorityKeyIdentifier = keyid:always
[any]
organizationName = optional
organizationalUnitName = optional
commonName = supplied
[req]
distinguished_name = none
[none]
"""


class Authority:
    """Certificates of an authority, and its revocation list."""

    NAMES = {"gateway": "/O=Example/CN=gateway.example.org", "client": "/O=Example/OU=NFS clients/CN=client.example.org"}

    def __init__(self, box: Box, algorithm: str) -> None:
        """algorithm: RSA or EC, of the hosts' keys. The authority's own is EC, which is quicker made."""
        self._box = box
        self.directory = box.directory / "ca"
        self.directory.mkdir()
        (self.directory / "index.txt").touch()
        (self.directory / "serial").write_text("01\n")
        (self.directory / "crlnumber").write_text("01\n")
        self._config = self.directory / "ca.cnf"
        self._config.write_text(CA_CONFIG.format(directory=self.directory))
        self._new_key("ca", "EC")
        extensions = ["-addext", "basicConstraints=critical,CA:true", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        extensions += ["-addext", "subjectKeyIdentifier=hash"]
        own = ["-key", self.directory / "ca.key", "-out", self.directory / "ca.pem", "-days", 2]
        self._openssl("req", "-config", self._config, "-x509", "-subj", "/O=Example/CN=NFS authority", *own, *extensions)
        for name, subject in self.NAMES.items():
            self._new_key(name, algorithm)
            request = self.directory / f"{name}.csr"
            own = ["-key", self.directory / f"{name}.key", "-out", request, "-addext", f"subjectAltName=DNS:{name}.example.org"]
            self._openssl("req", "-config", self._config, "-new", "-subj", subject, *own)
            self._openssl(
                "ca", "-config", self._config, "-batch", "-in", request, "-out", self.directory / f"{name}.pem", "-notext"
            )
        self._list()

    def _openssl(self, *words: object) -> None:
        done = self._box.run("openssl", *words, timeout=120)
        expect(done.returncode == 0, f"openssl {words[0]}: {done.stderr}")

    def _new_key(self, name: str, algorithm: str) -> None:
        size = {"RSA": "rsa_keygen_bits:2048", "EC": "ec_paramgen_curve:P-256"}[algorithm]
        self._openssl("genpkey", "-algorithm", algorithm, "-pkeyopt", size, "-out", self.directory / f"{name}.key")

    def _list(self) -> None:
        self._openssl("ca", "-config", self._config, "-gencrl", "-out", self.directory / "crl.pem")

    def revoke(self, name: str) -> None:
        self._openssl("ca", "-config", self._config, "-revoke", self.directory / f"{name}.pem")
        self._list()

    def hand_out(self, pair: Pair) -> None:
        for host, name in ((pair.server, "gateway"), (pair.client, "client")):
            for file, place in (
                ("ca.pem", "x509ca/nfs-ca.pem"),
                ("crl.pem", "x509crl/nfs.pem"),
                (f"{name}.pem", f"x509/{name}.pem"),
            ):
                (host.swanctl_directory / place).write_bytes((self.directory / file).read_bytes())
            key = host.swanctl_directory / f"private/{name}.key"
            key.write_bytes((self.directory / f"{name}.key").read_bytes())
            key.chmod(0o600)
