"""iWARP over IPsec: strongSwan between two hosts, with the policies of deploy/ipsec/ as they are. RDMAP knows nothing of it."""

import re
import runpy
import shutil
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Iterator

from harness import ROOT, Box, Gateway, Load, expect, expect_equal
from ipsec_lab import (
    CONNECTION,
    POLICIES,
    PORT,
    TCP,
    TUNNEL,
    Authority,
    Frame,
    Injector,
    Pair,
    Tap,
    only_forged,
    secret,
    wait_a_turn,
)
from iwarp_peer import IwarpPeer, null_message, send_fpdu, with_crc
from lab.daemon import wait_until

CHECK = POLICIES / "check_policy.py"
PROFILES = ("ikev2", "rfc3723-psk", "rfc3723-cert")
GUIDE = ROOT / "deploy/GUIDE.md"
SECTION = "### iWARP over an untrusted network"

# Of the Internet Key Exchange, version 1 (RFC 2408, RFC 2409, RFC 2407).
MAIN_MODE, AGGRESSIVE_MODE, QUICK_MODE = 2, 4, 32
SECURITY_ASSOCIATION, CERTIFICATE_REQUEST = 1, 7
IPSEC_DOI = 1
AUTHENTICATION_METHOD, PRE_SHARED_KEY, RSA_SIGNATURE = 3, 1, 3
X509_SIGNATURE = 4
ENCRYPTED = 1

# What the daemon's ESP says of a packet that it drops, once for each.
CHANGED = r"ESP decryption or ICV verification failed"
REPLAYED = r"ESP sequence number verification failed"

MPA_KEY = b"MPA ID Req Frame"
MACHINE = b"confidential.example.org"
EVERY_KIND = "null:2,echo/64:2,echo/6k:2,source/64k:1,sink/64k:1,callback/512:1"
EVERY_CALL = ("--mix", EVERY_KIND, "-n", 3, "-w", 2)
LOST_TO_THE_CALLER = ("wrong", "failed", "unanswered", "refused", "lost")


def _expect_all_answered(load: Load) -> set[str]:
    """Returns the kinds of calls that there were."""
    report = load.result()
    counts = {key: report[key] for key in LOST_TO_THE_CALLER}
    expect(report["calls"] > 0 and not any(counts.values()), f"{load.name}: {report['calls']} calls, {counts}")
    return {f"{kind['operation']}/{kind['bytes']}" for kind in report["mix"] if kind["calls"] > 0}


def _watch(load: Load, tap: Tap) -> Iterator[Frame]:
    """The frames on the wire until the load has ended."""
    while load.alive():
        yield from tap.frames()
        time.sleep(0.01)
    yield from tap.frames()


def _expect_encrypted(frames: list[Frame]) -> None:
    """Of IP there is nothing but IKE and ESP, and what every iWARP connection begins with is nowhere."""
    clear = [frame for frame in frames if frame.is_ipv4 and not frame.is_ike and not frame.is_esp]
    expect(not clear, f"{len(clear)} packets that are neither IKE nor ESP: {[(one.protocol, one.ports) for one in clear[:5]]}")
    expect(not any(MPA_KEY in frame.data for frame in frames), "an MPA Request is readable")
    expect(any(frame.is_esp for frame in frames), "there is no ESP")


def _ike_payloads(message: bytes) -> list[tuple[int, bytes]]:
    """Those of a message that is not encrypted."""
    found, kind, at = [], message[16], 28
    if message[19] & ENCRYPTED:
        return []
    while kind:
        following, _, length = struct.unpack(">BBH", message[at : at + 4])
        found.append((kind, message[at + 4 : at + length]))
        kind, at = following, at + length
    return found


def _exchanges(messages: list[bytes]) -> set[int]:
    return {message[18] for message in messages}


def _authentication_methods(offer: bytes) -> set[int]:
    """Of all transforms of an SA payload; the one proposal is that of ISAKMP."""
    doi, _ = struct.unpack(">II", offer[:8])
    expect_equal("DOI", doi, IPSEC_DOI)
    methods = set()
    at = 8 + 8 + offer[8 + 6]  # behind the proposal and its SPI
    while at < len(offer):
        length = struct.unpack(">H", offer[at + 2 : at + 4])[0]
        attributes = offer[at + 8 : at + length]
        while attributes:
            kind, value = struct.unpack(">HH", attributes[:4])
            if kind & 0x7FFF == AUTHENTICATION_METHOD:
                methods.add(value)
            attributes = attributes[4 if kind & 0x8000 else 4 + value :]
        at += length
    return methods


def _offers(messages: list[bytes]) -> set[int]:
    """Authentication methods that were offered or chosen in any phase 1."""
    return {
        method
        for message in messages
        for kind, body in _ike_payloads(message)
        if kind == SECURITY_ASSOCIATION
        for method in _authentication_methods(body)
    }


def _ike(frames: list[Frame]) -> list[bytes]:
    return [frame.ike_message for frame in frames if frame.is_ike]


def _revoke_client(authority: Authority, pair: Pair) -> None:
    """As the guide says: without --flush-certs the list from before stays in use."""
    authority.revoke("client")
    authority.hand_out(pair)
    pair.server.swanctl("--load-creds")
    pair.server.swanctl("--flush-certs")


def _lets_in(pair: Pair) -> bool:
    with pair.client.inside():
        try:
            socket.create_connection((pair.server.address, PORT), 0.5).close()
            return True
        except TimeoutError:
            return False


def _check_policy(box: Box, directory: Path) -> tuple[int, str]:
    """As an operator runs it."""
    done = box.run(sys.executable, CHECK, directory, timeout=60)
    return done.returncode, done.stdout + done.stderr


def _swanctl_directory(box: Box, profile: str, side: str) -> Path:
    """As an operator fills it."""
    directory = box.directory / "etc"
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "conf.d").mkdir(parents=True)
    (directory / "private").mkdir()
    (directory / "swanctl.conf").write_text("# Debian's\ninclude conf.d/*.conf\n")
    shutil.copy(POLICIES / f"{profile}-{side}.conf", directory / "conf.d/causeway.conf")
    secrets = directory / "conf.d/secrets.conf"
    secrets.write_text((POLICIES / "secrets.conf").read_text().replace("REPLACE THIS", secret()))
    secrets.chmod(0o600)
    key = directory / "private/own.key"
    key.write_text("a key\n")
    key.chmod(0o600)
    return directory


# Profile, side, what is changed in the file, and what the check then says.
NO_POLICY = (
    ("ikev2", "server", r"(esp_proposals =).*", r"\1 null-ecp384", "packets are not authenticated"),
    ("ikev2", "client", r"(esp_proposals =).*", r"\1 aes128-ecp256", "packets are not authenticated"),
    ("ikev2", "server", r"(esp_proposals =).*", r"\1 default", "say which"),
    ("ikev2", "server", r"esp_proposals =.*", "ah_proposals = sha256-ecp256", "the profile is ESP"),
    ("rfc3723-psk", "server", r"(replay_window =).*", r"\1 0", "can send them again"),
    ("ikev2", "client", r"(mode =).*", r"\1 pass", "tunnel or transport"),
    ("ikev2", "client", r"(mode = tunnel)", r"\1\npolicies = no", "nothing makes packets take the SA"),
    ("rfc3723-cert", "server", r"(auth =) pubkey", r"\1 rsaenc", "neither a pre-shared key nor a digital signature"),
    ("rfc3723-psk", "client", r"(aggressive =) no", r"\1 yes", "guess the key"),
    ("rfc3723-psk", "server", r"(remote_addrs =).*", r"\1 %any", "remote_addrs not fixed"),
    ("rfc3723-psk", "server", r"(remote_addrs =).*", r"\1 192.0.2.0/24", "remote_addrs not fixed"),
    ("rfc3723-psk", "client", r"(remote_addrs =).*", r"\1 gateway.example.org", "remote_addrs not fixed"),
    ("rfc3723-psk", "client", r"local_addrs =.*", "", "local_addrs not fixed"),
    ("rfc3723-cert", "server", r"(dpd_delay)", r"send_certreq = no\n\1", "which authorities are trusted"),
    ("rfc3723-cert", "server", r"revocation =.*", "", "a revoked certificate passes"),
    ("ikev2", "server", r'id = "O=.*', "", "every certificate of the authority would do"),
    ("rfc3723-psk", "server", r"( proposals =).*", r"\1 aes128-sha256-modp1024", "modp1024 is too short"),
    ("rfc3723-psk", "server", r"( proposals =).*", r"\1 des-md5-modp2048", "des, md5 is not of the profile"),
    ("rfc3723-psk", "server", r"( proposals =).*", r"\1 aes256-sha256-modp4096", "is no group of the connection's own"),
    ("ikev2", "server", r"(esp_proposals =).*", r"\1 aes128gcm16", "names no Diffie-Hellman group"),
    ("ikev2", "server", r"(rekey_time =) 4h", r"\1 0", "0 is for ever"),
    ("ikev2", "server", r"(rekey_time =) 1h", r"\1 2d", "rekey_time: 172800 s"),
    ("ikev2", "server", r"rekey_packets.*", "", "sequence numbers end"),
    ("rfc3723-cert", "client", r"rekey_bytes.*", "", "3DES has to have a new key"),
    ("ikev2", "server", r"(version =).*", r"\1 0", "say 1 or 2"),
    ("ikev2", "server", r"tcp/20049", "tcp/2049", "none protects TCP port 20049"),
    ("ikev2", "server", r"(version = 2)", r"\1\nsome thing", "is not understood"),
)


# Proves RDMAP-8.2.2-2, RDMAP-8.2.2-4, RDMAP-8.2.2-11, RDMAP-8.2.2-14, RDMAP-8.2.2-18, RDMAP-8.2.2-19: the check is what an
# operator runs before a policy is loaded. What it finds in none of the shipped files it finds in each file that lacks one
# thing.
def policies_keep_to_the_profile(box: Box) -> None:
    for profile in PROFILES:
        for side in ("server", "client"):
            status, said = _check_policy(box, _swanctl_directory(box, profile, side))
            expect_equal(f"faults of {profile}-{side}.conf: {said}", status, 0)
            # A gateway cannot bring up SAs with clients whose addresses it does not know.
            warnings = [line for line in said.splitlines() if line.startswith("warning")]
            others = [line for line in warnings if profile != "ikev2" or side != "server" or "start_action" not in line]
            expect_equal(f"warnings of {profile}-{side}.conf", others, [])
    check = runpy.run_path(str(CHECK))["check"]  # a program for each would take seconds
    for profile, side, old, new, phrase in NO_POLICY:
        directory = _swanctl_directory(box, profile, side)
        path = directory / "conf.d/causeway.conf"
        path.write_text(re.sub(old, new, path.read_text()))
        faults = check([directory]).faults
        expect(any(phrase in fault for fault in faults), f"{profile}, {new!r}: no {phrase!r} in {faults}")
    for name in ("conf.d/secrets.conf", "private/own.key"):
        directory = _swanctl_directory(box, "rfc3723-psk", "server")
        (directory / name).chmod(0o640)
        status, said = _check_policy(box, directory)
        expect(status == 1 and f"{name}: mode 0640: others than its owner" in said, said)
    shutil.copy(POLICIES / "secrets.conf", directory / "conf.d/secrets.conf")
    status, said = _check_policy(box, directory)
    expect(status == 1 and "take 32 random bytes" in said, f"the key of the example: {said}")


def _forge_next_call(tap: Tap, peer: IwarpPeer) -> bytes:
    """A frame of the client's stream with one more call, made of nothing but what the wire shows."""
    call = peer.calls + 1
    ports = {PORT, peer.port}
    segments = [frame for frame in tap.frames() if frame.protocol == TCP and set(frame.ports) == ports]
    expect(bool(segments), "nothing of the connection is to be seen")

    def end(frame: Frame) -> int:
        header = frame.data[frame.start :]
        payload = struct.unpack(">H", frame.data[16:18])[0] - (frame.start - 14) - 4 * (header[12] >> 4)
        return (struct.unpack(">I", header[4:8])[0] + payload) & 0xFFFFFFFF

    last = [frame for frame in segments if frame.inbound][-1]
    ends = {inbound: max(end(frame) for frame in segments if frame.inbound == inbound) for inbound in (True, False)}
    header_bytes = 4 * (last.data[last.start + 12] >> 4)
    frame = bytearray(last.data[: last.start + header_bytes])
    frame[last.start + 4 : last.start + 12] = struct.pack(">II", ends[True], ends[False])
    frame[last.start + 13] = 0x18  # PSH, ACK
    frame += send_fpdu(null_message(call, b"root.example.org"), call)
    frame[16:18] = struct.pack(">H", len(frame) - 14)
    return bytes(frame)


# Proves RDMAP-8.2-1: what a stranger on the path can do with a connection in cleartext, and that the strict rules end it.
def cleartext_is_open_to_a_stranger(box: Box) -> None:
    pair = Pair(box, ike=False)
    gateway = pair.start_gateway()
    tap, stranger = Tap(pair.server), Injector(pair)
    with pair.peer() as peer:
        peer.null_call()
        peer.ask(MACHINE)
        peer.take_reply()
        wait_until(lambda: pair.rpcs(peer) == 2, 10, "two calls counted")
        wait_a_turn(0.1)  # for the last acknowledgement
        seen = tap.packets()
        expect(any(MPA_KEY in data for data, _ in seen) and any(MACHINE in data for data, _ in seen), "it is not to be read")
        peer.null_call()
        wait_a_turn(0.1)
        stranger.send(_forge_next_call(tap, peer))
        wait_until(lambda: pair.rpcs(peer) == 4, 10, "the call that the client never made")
    # The strict rules: nothing of it passes any more, and each attempt is counted.
    with pair.peer() as peer:
        peer.null_call()
        wait_a_turn(0.1)
        forged = _forge_next_call(tap, peer)
        calls = pair.rpcs(peer)
        pair.server.run("nft", "-f", POLICIES / "only-ipsec.nft")
        stranger.send(forged)
        wait_until(lambda: pair.refused_in_cleartext(pair.server) > 0, 10, "the forged call is refused and counted")
        wait_a_turn()
        expect_equal("calls", pair.rpcs(peer), calls)
        refused = pair.refused_in_cleartext(pair.server)
        expect(not _lets_in(pair), "a client in cleartext is let in")
        expect(pair.refused_in_cleartext(pair.server) > refused, "the client in cleartext is not counted")
        # The same frame is taken without the rules, so it was they.
        pair.server.run("nft", "delete table inet only_ipsec")
        stranger.send(forged)
        wait_until(lambda: pair.rpcs(peer) == calls + 1, 10, "the forged call without the rules")
    gateway.terminate()


class Redirector:
    """On the path of a connection in cleartext: it sends every segment of a WRITE to where the first one goes. It reads DDP's header
    alone and never the payload, so that might as well be encrypted."""

    TAGGED, TAGGED_HEADER = 0x80, 14

    def __init__(self, pair: Pair) -> None:
        with pair.client.inside():
            self._listening = socket.create_server(("127.0.0.1", 0))
            self._gateway = socket.socket()
        self._gateway.settimeout(10)
        self.port = self._listening.getsockname()[1]
        self._server = (pair.server.address, PORT)
        self.redirected = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            client, _ = self._listening.accept()
            self._gateway.connect(self._server)
            self._gateway.settimeout(None)
            threading.Thread(target=self._copy, args=(client, self._gateway), daemon=True).start()
            source = self._gateway.makefile("rb")
            client.sendall(source.read(18) + (length := source.read(2)) + source.read(struct.unpack(">H", length)[0]))
            first: dict[bytes, bytes] = {}
            while start := source.read(2):
                ulpdu_bytes = struct.unpack(">H", start)[0]
                ulpdu = source.read(ulpdu_bytes)
                source.read(-(ulpdu_bytes + 2) % 4 + 4)
                if ulpdu[0] & self.TAGGED:
                    steered = ulpdu[:6] + first.setdefault(ulpdu[2:6], ulpdu[6:14]) + ulpdu[self.TAGGED_HEADER :]
                    self.redirected += steered != ulpdu
                    ulpdu = steered
                client.sendall(with_crc(start + ulpdu))
        except OSError:
            pass  # one of both has gone

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


# Proves RDMAP-8.2.1-2: who changes DDP's header needs nothing of the payload; so what encrypts the payload alone satisfies
# neither the check of the policy nor the rules on the wire.
def headers_in_cleartext_steer_data(box: Box) -> None:
    pair = Pair(box, ike=False)
    gateway = pair.start_gateway()
    one_call = ("--op", "source", "--bytes", "16k", "-n", 1, "-w", 1, "--seconds", 1)
    honest = pair.load(*one_call, name="honest").result()
    expect(
        honest["calls"] > 0 and not honest["wrong"],
        f"without anybody on the path: {honest['calls']} calls, {honest['wrong']} wrong",
    )
    path = Redirector(pair)
    steered = pair.load(*one_call, to="127.0.0.1", port=path.port, name="steered").result(status=None)
    expect(path.redirected > 0, "no segment was redirected")
    expect(steered["wrong"] > 0, f"{path.redirected} segments went elsewhere, and the data is right: {steered['wrong']} wrong")
    # NFS with krb5p encrypts above RDMAP, and has no entry here.
    (box.directory / "swanctl").mkdir()
    (box.directory / "swanctl/swanctl.conf").write_text("connections {\n}\n")
    status, said = _check_policy(box, box.directory / "swanctl")
    expect(status == 1 and "whatever is encrypted above RDMAP, RDMAP itself is in cleartext" in said, said)
    pair.server.run("nft", "-f", POLICIES / "only-ipsec.nft")
    path = Redirector(pair)
    refused = pair.load(*one_call, to="127.0.0.1", port=path.port, name="refused")
    wait_until(lambda: pair.refused_in_cleartext(pair.server) > 0, 10, "the rules refuse it")
    refused.kill()
    expect_equal("segments through the rules", path.redirected, 0)
    gateway.terminate()


# Proves RDMAP-8.2.2-1, RDMAP-8.2.2-5, RDMAP-8.2.2-7, RDMAP-8.2.2-9, RDMAP-8.2.2-12, RDMAP-8-1: RFC 3723's profile, which the
# guide names: IKEv1's Main Mode with the IPsec DOI and a pre-shared key makes the SAs of a tunnel, before which nothing passes,
# and which carries every kind of call as the wire without it does.
def main_mode_with_a_pre_shared_key(box: Box) -> None:
    pair = Pair(box)
    tap = Tap(pair.server)
    pair.only_ipsec()
    gateway = pair.start_gateway()
    pair.take_policies("rfc3723-psk", secret())
    expect("RFC 3723" in _section(), "the guide does not name the profile")
    expect(not _lets_in(pair), "a connection without an SA")
    pair.client.initiate()
    sas = pair.client.sas()
    for word in ("version=1 ", "state=ESTABLISHED", "state=INSTALLED", "mode=TUNNEL", "protocol=ESP", "integ-alg=AES_XCBC_96"):
        expect(word in sas, f"no {word} in {sas}")
    frames: list[Frame] = []
    called: set[str] = set()
    for seconds in (2, 10, 30):  # a slow machine has not come to every kind in two
        load = pair.load(*EVERY_CALL, "--churn", 3, "--seconds", seconds)
        frames += _watch(load, tap)
        called |= _expect_all_answered(load)
        if len(called) == len(EVERY_KIND.split(",")):
            break
    expect_equal("kinds of calls", len(called), len(EVERY_KIND.split(",")))
    _expect_encrypted(frames)
    messages = _ike(frames)
    expect_equal("modes of phase 1", _exchanges(messages) & {MAIN_MODE, AGGRESSIVE_MODE}, {MAIN_MODE})
    expect(QUICK_MODE in _exchanges(messages), "no Quick Mode")
    expect_equal("methods of authentication", _offers(messages), {PRE_SHARED_KEY})
    expect(pair.server.bytes_in() > 100_000, f"bytes by the SA: {pair.server.bytes_in()}")
    gateway.terminate()


# Proves RDMAP-8.2.2-2, RDMAP-8.2.2-4, RDMAP-8.2.2-11: the daemon itself refuses what the profile does not have, and takes a
# peer that has only what RFC 3723 makes mandatory. What is not encrypted or not authenticated gets no SA.
def only_the_profile_is_negotiated(box: Box) -> None:
    pair = Pair(box)
    tap = Tap(pair.server)
    key = secret()
    pair.take_policies("rfc3723-psk", key)
    for setting, value, phrase in (
        ("esp_proposals", "null-null-modp2048", "NO_PROPOSAL_CHOSEN"),
        ("esp_proposals", "null-sha1-modp2048", "NO_PROPOSAL_CHOSEN"),
        ("esp_proposals", "aes128-md5-modp2048", "NO_PROPOSAL_CHOSEN"),
        ("proposals", "aes256-sha256-modp1024", "NO_PROPOSAL_CHOSEN"),
        ("aggressive", "yes", "AUTH_FAILED"),
    ):
        pair.client.take_policy("rfc3723-psk-client.conf", key, **{setting: value})
        done = pair.client.try_swanctl("--initiate", "--child", CONNECTION, "--timeout", 10)
        expect(done.returncode != 0 and phrase in done.stdout, f"{setting} = {value}: {done.returncode}, {done.stdout}")
        expect_equal(f"SA of {setting} = {value}", pair.client.spi_in(), "")
        pair.client.try_swanctl("--terminate", "--ike", CONNECTION, "--force")
    mandatory = {"proposals": "3des-sha1-modp2048", "esp_proposals": "3des-sha1-modp2048"}
    pair.client.take_policy("rfc3723-psk-client.conf", key, **mandatory)
    pair.client.initiate()
    sas = pair.client.sas()
    expect("encr-alg=3DES_CBC integ-alg=HMAC_SHA1_96" in sas, f"the mandatory transforms: {sas}")
    expect_equal("methods of authentication on the wire", _offers(_ike(tap.frames())), {PRE_SHARED_KEY})


# Proves RDMAP-8.2.2-1, RDMAP-8.2.2-3, RDMAP-8.2.2-4, RDMAP-8.2.1-1: a packet counts once, and only as it was sent. Each is
# complete in itself: unlike a record of TLS it is taken before one that is still missing, which RDMAP then finds in order.
def every_packet_is_checked(box: Box) -> None:
    expect("TLS" in _section() and "RDMAP" in _section(), "the guide does not say why it is not TLS")
    pair = Pair(box)
    gateway = pair.start_gateway()
    pair.take_policies("rfc3723-psk", secret())
    pair.client.initiate()
    with pair.peer() as peer:
        peer.null_call()
        tap, inside, stranger = Tap(pair.server), Tap(pair.server, TUNNEL), Injector(pair)
        wait_a_turn(0.1)
        with only_forged(pair):
            tap.packets()
            peer.ask()
            first = tap.wait_for(
                lambda frame: frame.inbound and frame.is_esp and len(frame.data) > 200, "the first call's packet"
            )
            peer.ask(MACHINE)
            # A repetition of the first has its length.
            second = tap.wait_for(
                lambda frame: frame.inbound and frame.is_esp and len(frame.data) > len(first.data), "the second call's packet"
            )
            inside.packets()
            calls = pair.rpcs(peer)

            def came_through() -> list[bytes]:
                return [packet for packet, inbound in inside.packets() if inbound]

            # Changed in its payload, in its sequence number, in its check value.
            for place in (first.start + 8 + 40, first.start + 8 + 7, len(first.data) - 1):
                changed = bytearray(first.data)
                changed[place] ^= 0x40
                stranger.send(bytes(changed))
            pair.server.wait_for_log(CHANGED, "what was changed is dropped", count=3)
            expect_equal("packets that were changed and came through", came_through(), [])
            stranger.send(second.data)
            found: list[bytes] = []
            wait_until(
                lambda: bool(found.extend(came_through()) or found), 10, "the second packet is taken before the first", 0.01
            )
            expect(MACHINE in found[0], f"another packet: {found[0].hex()}")
            wait_a_turn()
            expect_equal("calls while the first packet is missing", pair.rpcs(peer), calls)
            stranger.send(first.data)
            peer.take_reply()
            peer.take_reply()
            expect_equal("calls", pair.rpcs(peer), calls + 2)
            wait_a_turn(0.1)
            came_through()
            replays = len(re.findall(REPLAYED, pair.server.log()))
            stranger.send(first.data)
            stranger.send(second.data)
            pair.server.wait_for_log(REPLAYED, "the replays are dropped and counted", count=replays + 2)
            expect_equal("replays that came through", came_through(), [])
        peer.null_call()
        expect_equal("calls", pair.rpcs(peer), calls + 3)
    gateway.terminate()


def _streams(pair: Pair) -> tuple[float, float]:
    return pair.metric("causeway_connections_total"), pair.metric("causeway_iwarp_streams_ended_total")


# Proves RDMAP-8.2.2-8: either end deletes the SA of phase 2 while RDMAP is idle and under load; the stream is the same before
# and after.
def a_phase_2_delete_ends_no_stream(box: Box) -> None:
    pair = Pair(box)
    pair.only_ipsec()
    gateway = pair.start_gateway()
    pair.take_policies("rfc3723-psk", secret())
    pair.client.initiate()
    tap = Tap(pair.server)
    with pair.peer() as peer:
        peer.null_call()
        before, (row,) = _streams(pair), box.ctl_json(gateway, "connections")["connections"]
        for side in (pair.client, pair.server):
            spi = pair.server.spi_in()
            side.swanctl("--terminate", "--child", CONNECTION)
            wait_until(lambda: not pair.server.spi_in() and not pair.client.spi_in(), 10, "both ends delete the SA")
            peer.ask(MACHINE)
            wait_a_turn()
            expect_equal("streams", _streams(pair), before)
            # The kernel's own ESP brings the SA up by itself when a packet wants it (start_action = trap).
            pair.client.initiate()
            peer.take_reply()
            peer.null_call()
            expect(pair.server.spi_in() not in ("", spi), "the SA is the one from before")
        expect_equal("streams", _streams(pair), before)
        (now,) = box.ctl_json(gateway, "connections")["connections"]
        expect_equal("connection and its calls", (now["id"], now["rpcs"]), (row["id"], row["rpcs"] + 4))
        load = pair.load(*EVERY_CALL, "--seconds", 3)
        load.wait_connected()
        pair.client.swanctl("--terminate", "--child", CONNECTION)
        pair.client.initiate()
        frames = list(_watch(load, tap))
        _expect_all_answered(load)
        _expect_encrypted(frames)
        expect(not any(MACHINE in frame.data for frame in frames), "a call without an SA left in cleartext")
    gateway.terminate()


def _certified(box: Box, keys: str) -> tuple[Authority, Pair, Gateway]:
    """Both hosts have certificates of one authority, the strict rules are in force, and the gateway serves."""
    authority, pair = Authority(box, keys), Pair(box)
    pair.only_ipsec()
    gateway = pair.start_gateway()
    authority.hand_out(pair)
    return authority, pair, gateway


# Proves RDMAP-8.2.2-10, RDMAP-8.2.2-13, RDMAP-8.2.2-15, RDMAP-8.2.2-16, RDMAP-8.2.2-17: digital signatures in both modes, each
# of which names the authority on the wire; a certificate on the revocation list is as good as none.
def certificates_in_both_modes(box: Box) -> None:
    authority, pair, gateway = _certified(box, "RSA")
    tap = Tap(pair.server)
    for aggressive, mode in (("no", MAIN_MODE), ("yes", AGGRESSIVE_MODE)):
        pair.take_policies("rfc3723-cert", aggressive=aggressive)
        pair.client.initiate()
        with pair.peer() as peer:
            peer.null_call()
        frames = tap.frames()
        messages = _ike(frames)
        expect_equal("modes of phase 1", _exchanges(messages) & {MAIN_MODE, AGGRESSIVE_MODE}, {mode})
        expect_equal("methods of authentication", _offers(messages), {RSA_SIGNATURE})
        asked = [body for message in messages for kind, body in _ike_payloads(message) if kind == CERTIFICATE_REQUEST]
        expect(
            any(body[0] == X509_SIGNATURE and b"NFS authority" in body for body in asked),
            f"no request for a certificate: {asked}",
        )
        _expect_encrypted(frames)
        pair.client.swanctl("--terminate", "--ike", CONNECTION)
        wait_until(lambda: not pair.server.spi_in(), 10, "the end of the SAs")
        tap.packets()
    _revoke_client(authority, pair)
    done = pair.client.try_swanctl("--initiate", "--child", CONNECTION, "--timeout", 10)
    expect(done.returncode != 0 and not pair.server.spi_in(), f"a revoked certificate is let in: {done.stdout}")
    pair.server.wait_for_log(r"certificate was revoked", "why it refuses")
    gateway.terminate()


def ikev2_as_recommended(box: Box) -> None:
    """With new keys under load, and with an SA that the gateway deletes: no call is lost, and the client brings up another by itself."""
    authority, pair, gateway = _certified(box, "EC")
    pair.take_policies("ikev2")
    tap = Tap(pair.server)
    pair.client.initiate()
    sas = pair.client.sas()
    for word in ("version=2 ", "mode=TUNNEL", "encr-alg=AES_GCM_16 encr-keysize=256"):
        expect(word in sas, f"no {word} in {sas}")
    load = pair.load(*EVERY_CALL, "--seconds", 2)
    load.wait_connected()
    spi = pair.client.spi_in()
    pair.client.swanctl("--rekey", "--child", CONNECTION)
    frames = list(_watch(load, tap))
    _expect_all_answered(load)
    _expect_encrypted(frames)
    expect(pair.client.spi_in() != spi, "the keys are the same")
    with pair.peer() as peer:
        peer.null_call()
        before, spi = _streams(pair), pair.client.spi_in()
        pair.server.swanctl("--terminate", "--child", CONNECTION)
        wait_until(lambda: pair.client.spi_in() not in ("", spi), 10, "the client brings up an SA again")
        peer.null_call()
        expect_equal("streams", _streams(pair), before)
    _revoke_client(authority, pair)
    pair.client.swanctl("--terminate", "--ike", CONNECTION)
    done = pair.client.try_swanctl("--initiate", "--child", CONNECTION, "--timeout", 10)
    expect(done.returncode != 0, f"a revoked certificate is let in: {done.stdout}")
    gateway.terminate()


def _section() -> str:
    """What the guide says of IPsec, in one line."""
    text = GUIDE.read_text()
    begin = text.index(SECTION)
    return " ".join(text[begin : text.index("\n###", begin + 1) if "\n###" in text[begin + 1 :] else None].split())


# What section 5 of RFC 3723 considers, and the words of the guide that an operator finds it by.
CONSIDERED = {
    "transport or tunnel mode": "mode = transport",
    "NAT": "UDP port 4500",
    "IKE": "Aggressive Mode",
    "rekeying": "rekey_packets",
    "transforms": "3DES",
    "fragmentation": "fragments",
    "checks": "only-ipsec.nft",
    "machines, not users": "authenticates hosts, not users",
    "pre-shared keys of groups": "one key for each pair of hosts",
    "authorization": "allow",
    "counter mode": "never by hand",
}


# Proves RDMAP-8.2.2-20, RDMAP-8.2.1-1, RDMAP-8-1: the operator's guide has an item for each consideration, and names files and
# settings that are there.
def guide_considers_it(box: Box) -> None:
    section = _section()
    missing = [what for what, words in CONSIDERED.items() if words not in section]
    expect(not missing, f"the guide says nothing of {', '.join(missing)}")
    for phrase in ("RFC 3723", "Why not TLS"):
        expect(phrase in section, f"the guide has no {phrase!r}")
    for name in [path.name for path in POLICIES.iterdir() if path.is_file()]:
        expect(name in section, f"the guide does not say what {name} is for")
    policies = "".join(path.read_text() for path in POLICIES.glob("*.conf"))
    settings = set(re.findall(r"`(\w+) =", section))
    unknown = [name for name in settings if f"{name} =" not in policies]
    expect(bool(settings) and not unknown, f"settings of the guide that no policy has: {unknown}")


CASES = [
    ("IPsec: the policies keep to the profile, and the check finds what does not", policies_keep_to_the_profile),
    ("IPsec: the guide has what there is to consider", guide_considers_it),
    ("IPsec: without it a stranger reads and forges calls, until the strict rules end it", cleartext_is_open_to_a_stranger),
    ("IPsec: headers of RDMAP in cleartext steer data elsewhere, whatever the payload is", headers_in_cleartext_steer_data),
    ("IPsec: Main Mode with a pre-shared key carries every kind of call in a tunnel", main_mode_with_a_pre_shared_key),
    ("IPsec: only the profile is negotiated", only_the_profile_is_negotiated),
    ("IPsec: packets that are changed or replayed are dropped, and one that is late is awaited", every_packet_is_checked),
    ("IPsec: a phase 2 delete ends no stream", a_phase_2_delete_ends_no_stream),
    ("IPsec: certificates in Main Mode and Aggressive Mode, and one that is revoked", certificates_in_both_modes),
    ("IPsec: IKEv2 as recommended, with new keys under load", ikev2_as_recommended),
]
