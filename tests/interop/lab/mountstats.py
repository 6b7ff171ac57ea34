"""The client's own account of an NFS/RDMA mount: /proc/self/mountstats."""

from dataclasses import dataclass
from typing import Mapping

from lab.daemon import LabError

# Words after "xprt: rdma", in order; names as the nfs-utils program mountstats gives them.
RDMA_FIELDS = (
    "port",
    "bind_count",
    "connect_count",
    "connect_time",
    "idle_time",
    "rpcsends",
    "rpcreceives",
    "badxids",
    "inflightsends",
    "backlogutil",
    "read_segments",
    "write_segments",
    "reply_segments",
    "total_rdma_req",
    "total_rdma_rep",
    "pullup",
    "fixup",
    "hardway",
    "failed_marshal",
    "bad_reply",
    "nomsg_calls",
    "recovered_mrs",
    "orphaned_mrs",
    "allocated_mrs",
    "local_invalidates",
    "empty_sendctx_q",
    "reply_waits_for_send",
)

# Words after "bytes:": what applications asked for, then what went to and came from the server.
BYTE_FIELDS = (
    "normal_read",
    "normal_write",
    "direct_read",
    "direct_write",
    "server_read",
    "server_write",
    "read_pages",
    "write_pages",
)


@dataclass(frozen=True)
class MountStats:
    transport: str  # "rdma" or "tcp"
    xprt: Mapping[str, int]  # for rdma; several connections are added up
    bytes: Mapping[str, int]
    operations: Mapping[str, int]  # how many, by name
    timeouts: int  # major ones, of all operations


def parse(text: str, mount_point: str) -> MountStats:
    transport = ""
    xprt: dict[str, int] = {}
    sizes: dict[str, int] = {}
    operations: dict[str, int] = {}
    timeouts = 0
    ours = False
    for line in text.splitlines():
        words = line.split()
        if line.startswith("device "):
            ours = f"mounted on {mount_point} with fstype nfs" in line
        elif ours and words[:1] == ["bytes:"]:
            sizes = dict(zip(BYTE_FIELDS, map(int, words[1:])))
        elif ours and len(words) > 8 and words[0].endswith(":") and words[0][:-1].isupper() and words[1].isdigit():
            operations[words[0][:-1]] = int(words[1])
            timeouts += int(words[3])
        elif ours and words[:1] == ["xprt:"]:
            transport = words[1]
            if transport == "rdma":
                if len(words) - 2 != len(RDMA_FIELDS):
                    raise LabError(f"mountstats: {len(words) - 2} fields in the xprt line, not {len(RDMA_FIELDS)}")
                for name, value in zip(RDMA_FIELDS, map(int, words[2:])):
                    xprt[name] = xprt.get(name, 0) + value
    if not transport:
        raise LabError(f"mountstats: nothing about {mount_point}")
    return MountStats(transport, xprt, sizes, operations, timeouts)
