"""An iWARP client in a few lines: an MPA handshake, and calls of the bench program's NULL by RPC-over-RDMA."""

import socket
import struct

REQUEST_KEY, REPLY_KEY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
WANTS_CRC = 0x40
SAID_BACK = 0x20  # R of a Reply: the connection is refused
BENCH_PROGRAM, BENCH_VERSION, NULL = 0x2000CAFE, 1, 0
SEND, QUEUE_SEND = 3, 0
LAST_UNTAGGED, RDMAP_VERSION = 0x41, 0x40


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


class IwarpPeer:
    """A connection that is ready for calls."""

    def __init__(self, address: str, port: int, timeout: float = 10) -> None:
        self.socket = socket.create_connection((address, port), timeout)
        self.socket.sendall(REQUEST_KEY + struct.pack(">BBH", WANTS_CRC, 1, 0))
        reply = self._read(20)
        if not reply.startswith(REPLY_KEY) or reply[16] & SAID_BACK:
            raise ValueError(f"MPA Reply: {reply!r}")
        self._read(struct.unpack(">H", reply[18:])[0])
        self.calls = 0

    def __enter__(self) -> "IwarpPeer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def null_call(self) -> None:
        """Calls, and looks that the reply is its own."""
        self.calls += 1
        xid = 0x1000 + self.calls
        call = struct.pack(">10I", xid, 0, 2, BENCH_PROGRAM, BENCH_VERSION, NULL, 0, 0, 0, 0)
        self.send(struct.pack(">7I", xid, 1, 8, 0, 0, 0, 0) + call)
        reply = self.receive()
        header = struct.unpack(">7I", reply[:28])
        body = struct.unpack(">6I", reply[28:52])
        if header[0] != xid or header[3:] != (0, 0, 0, 0) or body != (xid, 1, 0, 0, 0, 0):
            raise ValueError(f"reply: {header} {body}")

    def send(self, message: bytes, number: int = 0) -> None:
        """A SEND. number: another MSN than the next one."""
        header = struct.pack(">BBIIII", LAST_UNTAGGED, RDMAP_VERSION | SEND, 0, QUEUE_SEND, number or self.calls, 0)
        fpdu = struct.pack(">H", len(header) + len(message)) + header + message
        fpdu += bytes(-len(fpdu) % 4)
        self.socket.sendall(fpdu + struct.pack("<I", crc32c(fpdu)))

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
