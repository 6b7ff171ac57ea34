#!/usr/bin/env python3
"""Writes the first bytes of a TCP connection of a capture, one file for each direction: streams.py CAPTURE PORT NUMBER BYTES NAME

The NUMBER-th connection (from 0) to PORT; NAME-client.bin and NAME-server.bin, up to BYTES each. Ethernet, IPv4 or IPv6; segments
that come twice or out of order are put right.
"""
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def segments(path):
    """Source, destination, sequence number, SYN and payload of every TCP segment."""
    raw = Path(path).read_bytes()
    order = "<" if raw[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at < len(raw):
        size = struct.unpack_from(order + "I", raw, at + 8)[0]
        frame = raw[at + 16 : at + 16 + size]
        at += 16 + size
        kind = struct.unpack_from(">H", frame, 12)[0]
        if kind == 0x0800 and frame[23] == 6:
            begin, source, target = 14 + 4 * (frame[14] & 15), frame[26:30], frame[30:34]
            end = 14 + struct.unpack_from(">H", frame, 16)[0]
        elif kind == 0x86DD and frame[20] == 6:
            begin, source, target = 54, frame[22:38], frame[38:54]
            end = 54 + struct.unpack_from(">H", frame, 18)[0]
        else:
            continue
        ports = struct.unpack_from(">HH", frame, begin)
        sequence = struct.unpack_from(">I", frame, begin + 4)[0]
        header = 4 * (frame[begin + 12] >> 4)
        yield (source, ports[0]), (target, ports[1]), sequence, bool(frame[begin + 13] & 2), frame[begin + header : end]


def main():
    capture, port, number, most, name = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    clients, starts, pieces = [], {}, {}
    for source, target, sequence, syn, payload in segments(capture):
        way = (source, target)
        if syn:
            starts[way] = sequence + 1
            if target[1] == port and source not in clients:
                clients.append(source)
        elif payload and way in starts:
            pieces.setdefault(way, {})[(sequence - starts[way]) % 2**32] = payload
    client = clients[number]
    for way, parts in pieces.items():
        if client not in way:
            continue
        stream = b""
        for offset in sorted(parts):
            if offset <= len(stream):
                stream += parts[offset][len(stream) - offset :]
        side = "client" if way[0] == client else "server"
        (HERE / f"{name}-{side}.bin").write_bytes(stream[:most])


main()
