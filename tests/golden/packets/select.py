#!/usr/bin/env python3
"""Chooses the committed golden packets out of full captures: select.py OUT.pcap IN.pcap...

Every datagram (connection management) is kept; of every other kind (input file, IP version, opcode, padding, direction) the
first two frames, but of long frames only the first of each IP version and opcode; then SENDs of the first file at even
distances until the budget is used. Order and time stamps stay.
"""
import struct
import sys

BUDGET_BYTES = 290_000
LONG_BYTES = 1200
RECORD = struct.Struct("<IIII")


def frames_of(path):
    with open(path, "rb") as capture:
        data = capture.read()
    header, at = data[:24], 24
    while at < len(data):
        size = RECORD.unpack_from(data, at)[2]
        yield header, data[at : at + 16 + size], data[at + 16 : at + 16 + size]
        at += 16 + size


def bth_of(frame):
    """(kind key, opcode) of a RoCEv2 frame, or None."""
    ether_type = frame[12:14]
    if ether_type == b"\x08\x00" and frame[23] == 17 and frame[36:38] == b"\x12\xb7":
        return ("4", frame[42], frame[43] & 0x30, frame[26:30]), frame[42]
    if ether_type == b"\x86\xdd" and frame[20] == 17 and frame[56:58] == b"\x12\xb7":
        return ("6", frame[62], frame[63] & 0x30, frame[22:38]), frame[62]
    return None


def main():
    out_path, in_paths = sys.argv[1], sys.argv[2:]
    records, kept, spare, seen = [], set(), [], {}
    header = b""
    for path in in_paths:
        for header, record, frame in frames_of(path):
            bth = bth_of(frame)
            if bth is None:
                continue
            index = len(records)
            records.append(record)
            is_long = len(frame) > LONG_BYTES
            key, opcode = ((path,) + bth[0], bth[1]) if not is_long else (bth[0][:2], bth[1])
            seen[key] = seen.get(key, 0) + 1
            if opcode == 0x64 or seen[key] <= (1 if is_long else 2):
                kept.add(index)
            elif opcode in (0x04, 0x17) and not is_long and path == in_paths[0]:
                spare.append(index)
    used = 24 + sum(len(records[index]) for index in kept)
    room = BUDGET_BYTES - used
    step = max(1, -(-sum(len(records[index]) for index in spare) // max(1, room)))
    kept.update(spare[::step])
    with open(out_path, "wb") as out:
        out.write(header)
        for index in sorted(kept):
            out.write(records[index])
    print(f"{len(kept)} of {len(records)} frames")


main()
