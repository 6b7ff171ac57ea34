"""How long a client stood still by itself, from a capture of its RoCEv2 packets behind the network that loses them.

What the client sends and the network loses, the server never sees: nobody but the client's own timer can bring it again. The same holds
for a queue pair that the client has given up in silence, until it connects anew.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional

SILENCE_S = 1.0  # the timer of Linux's NFS client is 2 s and more
ROCE_PORT = 4791
ACK = 0x11
READ_RESPONSES = range(0x0D, 0x11)
DATAGRAM = 0x64  # UD SEND Only: the connection manager
PSNS = 1 << 24


@dataclass
class Packet:
    seconds: float
    source: bytes
    opcode: int
    psn: int


def _packets(path: Path) -> Iterator[Packet]:
    data = path.read_bytes()
    ticks = {0xA1B2C3D4: 1e6, 0xA1B23C4D: 1e9}[struct.unpack_from("<I", data)[0]]
    at = 24
    while at + 16 <= len(data):
        second, part, captured, _ = struct.unpack_from("<IIII", data, at)
        frame = data[at + 16 : at + 16 + captured]
        at += 16 + captured
        if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[23] != 17:
            continue
        udp = 14 + (frame[14] & 15) * 4
        if struct.unpack_from(">H", frame, udp + 2)[0] == ROCE_PORT:
            psn = struct.unpack_from(">I", frame, udp + 16)[0] % PSNS
            yield Packet(second + part / ticks, frame[26:30], frame[udp + 8], psn)


class _Newest:
    """The newest PSN of one direction; None: no packet yet."""

    def __init__(self) -> None:
        self.psn: Optional[int] = None

    def take(self, psn: int) -> bool:
        """True: it is newer than all before."""
        if self.psn is not None and not 0 < (psn - self.psn) % PSNS < PSNS // 2:
            return False
        self.psn = psn
        return True


def client_waits(path: Path, client: str) -> float:
    """Seconds of all silences that the client at this IPv4 address ended with something new while the server owed nothing.

    What was sent and acknowledged before, as a keepalive's probe, ends no silence. One connection at a time.
    """
    address = bytes(int(part) for part in client.split("."))
    requests, of_server, acknowledged = _Newest(), _Newest(), _Newest()
    since: Optional[float] = None
    waits = 0.0
    for packet in _packets(path):
        from_client = packet.source == address
        own = False
        if packet.opcode == DATAGRAM:
            own = from_client
        elif packet.opcode == ACK or packet.opcode in READ_RESPONSES:
            if not from_client or not acknowledged.take(packet.psn):
                continue
        elif not (requests if from_client else of_server).take(packet.psn):
            continue
        else:
            own = from_client
        owed = of_server.psn is not None and acknowledged.psn != of_server.psn
        if own and since is not None and not owed and packet.seconds - since > SILENCE_S:
            waits += packet.seconds - since
        if packet.opcode == DATAGRAM:
            requests, of_server, acknowledged = _Newest(), _Newest(), _Newest()
        since = packet.seconds
    return waits
