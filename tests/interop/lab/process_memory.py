"""Memory of a process, without the pools that a gateway maps whole at its start and that become resident as they are first used."""

from pathlib import Path

POOLS_MB = 60  # mappings from this size on are what [dataplane] memory_mb asked for


def resident_mb(process: int) -> float:
    total, size = 0, 0
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        if line.startswith("Size:"):
            size = int(line.split()[1]) >> 10
        elif line.startswith("Rss:") and size < POOLS_MB:
            total += int(line.split()[1])
    return total / 1024
