"""An iWARP client in a few lines: an MPA handshake, and calls of the bench program's NULL by RPC-over-RDMA."""

import socket
import struct

REQUEST_KEY, REPLY_KEY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
WANTS_CRC = 0x40
SAID_BACK = 0x20  # R of a Reply: the connection is refused
BENCH_PROGRAM, BENCH_VERSION, NULL = 0x2000CAFE, 1, 0
SEND, QUEUE_SEND = 3, 0
LAST_UNTAGGED, RDMAP_VERSION = 0x41, 0x40
FIRST_XID, AUTH_SYS = 0x1000, 1


def _crc32c_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc32c_table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def null_message(call: int, machine: bytes = b"") -> bytes:
    """RPC-over-RDMA message of the connection's call of this number."""
    xid = FIRST_XID + call
    body = struct.pack(">2I", 0, len(machine)) + machine + bytes(-len(machine) % 4) + struct.pack(">3I", 0, 0, 0)
    credentials = struct.pack(">2I", AUTH_SYS, len(body)) + body if machine else struct.pack(">2I", 0, 0)
    call_words = struct.pack(">6I", xid, 0, 2, BENCH_PROGRAM, BENCH_VERSION, NULL) + credentials + struct.pack(">2I", 0, 0)
    return struct.pack(">7I", xid, 1, 8, 0, 0, 0, 0) + call_words


def send_fpdu(message: bytes, number: int) -> bytes:
    header = struct.pack(">BBIIII", LAST_UNTAGGED, RDMAP_VERSION | SEND, 0, QUEUE_SEND, number, 0)
    return with_crc(struct.pack(">H", len(header) + len(message)) + header + message)


def with_crc(fpdu: bytes) -> bytes:
    """The FPDU, which begins with its length, with padding and CRC."""
    fpdu += bytes(-len(fpdu) % 4)
    return fpdu + struct.pack("<I", crc32c(fpdu))


class IwarpPeer:
    """A connection that is ready for calls."""

    def __init__(self, address: str, port: int, timeout: float = 10, source: str = "") -> None:
        """source: which of our addresses it comes from."""
        self.socket = socket.create_connection((address, port), timeout, (source, 0) if source else None)
        self.socket.sendall(REQUEST_KEY + struct.pack(">BBH", WANTS_CRC, 1, 0))
        reply = self._read(20)
        if not reply.startswith(REPLY_KEY) or reply[16] & SAID_BACK:
            raise ValueError(f"MPA Reply: {reply!r}")
        self._read(struct.unpack(">H", reply[18:])[0])
        self.calls = self.replies = 0

    def __enter__(self) -> "IwarpPeer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    @property
    def port(self) -> int:
        """Our own."""
        return self.socket.getsockname()[1]

    def null_call(self) -> None:
        """Calls, and looks that the reply is its own."""
        self.ask()
        self.take_reply()

    def ask(self, machine: bytes = b"") -> None:
        """A call whose reply is taken later. machine: a name for the caller, as AUTH_SYS tells it."""
        self.calls += 1
        self.send(null_message(self.calls, machine))

    def take_reply(self) -> None:
        """That to the first call that has none yet."""
        self.replies += 1
        xid = FIRST_XID + self.replies
        reply = self.receive()
        header = struct.unpack(">7I", reply[:28])
        body = struct.unpack(">6I", reply[28:52])
        if header[0] != xid or header[3:] != (0, 0, 0, 0) or body != (xid, 1, 0, 0, 0, 0):
            raise ValueError(f"reply: {header} {body}")

    def send(self, message: bytes, number: int = 0) -> None:
        """A SEND. number: another MSN than the next one."""
        self.socket.sendall(send_fpdu(message, number or self.calls))

    def receive(self) -> bytes:
        """The payload of the next FPDU."""
        start = self._read(2)
        ulpdu_bytes = struct.unpack(">H", start)[0]
        rest = self._read(ulpdu_bytes + -(ulpdu_bytes + 2) % 4 + 4)
        fpdu, crc = start + rest[:-4], struct.unpack("<I", rest[-4:])[0]
        if crc != crc32c(fpdu):
            raise ValueError("CRC of an FPDU")
        return fpdu[2 + 18 : 2 + ulpdu_bytes]

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ValueError(f"the gateway has closed the connection after {data!r}")
            data += more
        return data
