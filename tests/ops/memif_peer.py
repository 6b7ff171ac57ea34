"""The client's end of a memif link's control socket (memif 2.0): just enough of it to have the link up and to leave."""

import array
import mmap
import os
import socket
import struct
from collections.abc import Callable
from types import TracebackType

MESSAGE_BYTES = 128
ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT = range(1, 9)
VERSION = 0x0200
COOKIE = 0x3E31F20
LOG2_RING = 10
RING_BYTES = 128 + 16 * (1 << LOG2_RING)
REGION_BYTES = 1 << 20
CLIENT_TO_SERVER = 1


class MemifPeer:
    """A link that is up: one region with an empty ring in each direction."""

    def __init__(self, path: os.PathLike[str], steps: int = 6) -> None:
        """steps: how far the handshake goes."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.socket.connect(os.fspath(path))
        self.region = os.memfd_create("region", os.MFD_CLOEXEC)
        os.ftruncate(self.region, REGION_BYTES)
        with mmap.mmap(self.region, REGION_BYTES) as memory:
            for ring in range(2):
                struct.pack_into("<I", memory, ring * RING_BYTES, COOKIE)
        handshake: list[Callable[[], None]] = [
            lambda: self._expect(HELLO),
            lambda: self._ask(INIT, struct.pack("<HIB24s32s", VERSION, 0, 0, b"", b"peer"), ACK),
            self.add_region,
            lambda: self.add_ring(CLIENT_TO_SERVER),
            lambda: self.add_ring(0, RING_BYTES),
            self.connect,
        ]
        for step in handshake[:steps]:
            step()

    def __enter__(self) -> "MemifPeer":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def say_disconnect(self) -> None:
        self._send(DISCONNECT, struct.pack("<I96s", 0, b"going"))

    def close(self) -> None:
        self.socket.close()
        os.close(self.region)

    def add_region(self, size: int = REGION_BYTES) -> None:
        self._ask(ADD_REGION, struct.pack("<HQ", 0, size), ACK, self.region)

    def add_ring(self, flags: int, offset: int = 0, region: int = 0) -> None:
        wakeup = os.eventfd(0)
        try:
            self._ask(ADD_RING, struct.pack("<HHHIBH", flags, 0, region, offset, LOG2_RING, 0), ACK, wakeup)
        finally:
            os.close(wakeup)

    def connect(self) -> None:
        self._ask(CONNECT, struct.pack("<32s", b"peer"), CONNECTED)

    def _ask(self, kind: int, body: bytes, answer: int, descriptor: int | None = None) -> None:
        self._send(kind, body, descriptor)
        self._expect(answer)

    def _send(self, kind: int, body: bytes, descriptor: int | None = None) -> None:
        message = (struct.pack("<H", kind) + body).ljust(MESSAGE_BYTES, b"\0")
        ancillary = [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        self.socket.sendmsg([message], ancillary)

    def _expect(self, kind: int) -> None:
        message = self.socket.recv(MESSAGE_BYTES)
        if len(message) != MESSAGE_BYTES or struct.unpack_from("<H", message)[0] != kind:
            raise ConnectionError(f"memif: expected message {kind}, got {message[:16]!r}")
