"""A capture file of RoCEv2 frames that a gateway at 10.9.0.1 has to drop, each for a reason of its own."""

import struct
import zlib
from pathlib import Path

UNKNOWN_QPN = 0x123456
ACKNOWLEDGE = 0x11  # reliable connection
ROCE_PORT = 4791


def _ipv4(payload_bytes: int) -> bytes:
    header = bytearray(struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + payload_bytes, 0, 0x4000, 64, 17, 0, bytes([10, 9, 0, 2]),
                                   bytes([10, 9, 0, 1])))
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
    return bytes(header)


def _icrc(ip: bytes, udp: bytes, bth: bytes, payload: bytes) -> bytes:
    """IBA A17: over 8 octets of ones and the packet, with what routers change replaced by ones."""
    ip, udp, bth = bytearray(ip), bytearray(udp), bytearray(bth)
    ip[1], ip[8], ip[10:12] = 0xFF, 0xFF, b"\xff\xff"  # type of service, time to live, checksum
    udp[6:8] = b"\xff\xff"  # checksum
    bth[4] = 0xFF  # FECN, BECN, reserved
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + bth + payload))


def _acknowledgement(qpn: int) -> bytes:
    bth = struct.pack(">BBHII", ACKNOWLEDGE, 0x40, 0xFFFF, qpn, 1)
    aeth = bytes(4)
    udp_bytes = 8 + len(bth) + len(aeth) + 4
    ip = _ipv4(udp_bytes)
    udp = struct.pack(">HHHH", 0xC000, ROCE_PORT, udp_bytes, 0)
    ethernet = bytes.fromhex("020000000001") + bytes.fromhex("020000000002") + b"\x08\x00"
    return ethernet + ip + udp + bth + aeth + _icrc(ip, udp, bth, aeth)


def write(path: Path) -> None:
    good = _acknowledgement(UNKNOWN_QPN)
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    frames = [good, damaged, good[:-8]]
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for second, frame in enumerate(frames):
            file.write(struct.pack("<IIII", second, 0, len(frame), len(frame)) + frame)
