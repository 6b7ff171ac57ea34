"""The steps of every NFS case. The guest does them (guest/lib.sh); the server's side of each result is checked here."""

from lab.daemon import LabError
from lab.rig import MOUNT_POINT, Rig

MIB = 1 << 20

# 0 B up, around every size at which something changes: the inline threshold, pages, RoCE MTUs, rsize and wsize.
SMALL = (0, 1, 2, 3, 5, 511, 1023, 1024, 1025, 3999, 4095, 4096, 4097, 8191, 12289, 65535, 65537, 262143, 262147)
MEDIUM = (MIB - 1, MIB + 1, 3 * MIB + 13, 8 * MIB + 7)
LARGE = (64 * MIB,)

LINK_TARGET = ("x" * 99 + "/") * 9


def files(rig: Rig, directory: str, sizes: tuple[int, ...]) -> None:
    """Written, caches dropped, read back; md5 equal in the client and in the exported directory."""
    guest = rig.guest
    guest.check(f"make_sources {' '.join(map(str, sizes))}", 120)
    guest.check(f"write_files {MOUNT_POINT}/{directory}", 400)
    before = rig.stats().bytes["server_read"]
    guest.check(f"check_files {MOUNT_POINT}/{directory}", 400)
    from_server = rig.stats().bytes["server_read"] - before
    if from_server < sum(sizes):
        raise LabError(f"only {from_server} of {sum(sizes)} bytes were read back from the server")
    sums = guest.check("cat /tmp/src/SUMS")
    client = {name: digest for digest, name in (line.split() for line in sums.splitlines())}
    server = rig.backend.digests(directory)
    if client != server:
        different = [name for name in sorted(client.keys() | server.keys()) if client.get(name) != server.get(name)]
        raise LabError(f"client and server disagree on {', '.join(different)}")


def entries(rig: Rig, directory: str, count: int = 1000) -> None:
    rig.guest.check(f"make_entries {MOUNT_POINT}/{directory} {count}", 600)
    rig.guest.check(f"check_entries {MOUNT_POINT}/{directory} {count}", 120)
    wanted = sorted(f"entry-with-a-longer-name-{number}" for number in range(1, count + 1))
    if rig.backend.names(directory) != wanted:
        raise LabError("the server's directory does not have the entries the client made")


def long_symlink(rig: Rig, path: str) -> None:
    rig.guest.check(f"check_symlink {MOUNT_POINT}/{path}", 60)
    if rig.backend.link(path) != LINK_TARGET:
        raise LabError("the server's symlink is not the one the client made")


def changes(rig: Rig, directory: str) -> None:
    """rename, remove, truncate, append"""
    rig.guest.check(f"check_changes {MOUNT_POINT}/{directory}", 120)


def everything(rig: Rig, directory: str, sizes: tuple[int, ...]) -> None:
    rig.guest.check(f"mkdir {MOUNT_POINT}/{directory}")
    files(rig, f"{directory}/files", sizes)
    entries(rig, f"{directory}/entries")
    long_symlink(rig, f"{directory}/link")
    changes(rig, f"{directory}/changes")
    rig.backend.remove_tree(directory)  # the sandbox's files are in memory
