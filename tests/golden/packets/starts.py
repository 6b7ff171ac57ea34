#!/usr/bin/env python3
"""Keeps of a capture how its connections start: starts.py OUT.pcap IN.pcap

The REQ and the REP of each connection that came up, and the first request packet that each side then sends. Order and time
stamps stay.
"""
import struct
import sys

RECORD = struct.Struct("<IIII")
DATAGRAM = 0x64
REQUESTS = [*range(0x00, 0x0D), 0x13, 0x14, 0x16, 0x17]  # opcodes that travel from requester to responder
MESSAGE = 12 + 8 + 24  # behind the start of the BTH: BTH, DETH, MAD header
REQ, REP = 0x10, 0x13


def frames_of(data):
    """(record with its header, source address, the frame from its BTH on) of each RoCEv2 frame."""
    at = 24
    while at < len(data):
        size = RECORD.unpack_from(data, at)[2]
        frame = data[at + 16 : at + 16 + size]
        if frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == b"\x12\xb7":
            yield data[at : at + 16 + size], frame[26:30], frame[42:]
        elif frame[12:14] == b"\x86\xdd" and frame[20] == 17 and frame[56:58] == b"\x12\xb7":
            yield data[at : at + 16 + size], frame[22:38], frame[62:]
        at += 16 + size


def main():
    with open(sys.argv[2], "rb") as capture:
        data = capture.read()
    frames = list(frames_of(data))
    kept, requested = set(), {}
    for index, (_, source, bth) in enumerate(frames):
        if bth[0] != DATAGRAM:
            continue
        message, attribute = bth[MESSAGE:], int.from_bytes(bth[36:38], "big")
        if attribute == REQ:
            requested[message[0:4]] = (index, source, message[32:35])
        elif attribute == REP and message[4:8] in requested:
            request, client, client_qpn = requested[message[4:8]]
            kept.update((request, index))
            for sender, qpn in ((client, message[12:15]), (source, client_qpn)):
                kept.add(
                    next(
                        i
                        for i in range(index, len(frames))
                        if frames[i][1] == sender and frames[i][2][0] in REQUESTS and frames[i][2][5:8] == qpn
                    )
                )
    with open(sys.argv[1], "wb") as out:
        out.write(data[:24])
        out.writelines(frames[index][0] for index in sorted(kept))
    print(f"{len(kept)} of {len(frames)} frames")


main()
