"""A kernel NFS/RDMA server (svcrdma over rdma_rxe) in a second guest, in the place of causewayd and Ganesha.

It shows that the client's side of the suite is right: what passes here and fails against causewayd is causewayd's.
"""

from pathlib import Path

from lab.guest import Guest, Nic


NFS_PORT = 2049


class Reference:
    def __init__(self, nic: Nic, logs: Path, number: int = 1) -> None:
        self.guest = Guest(nic, logs, number=number, name="server")

    def start(self) -> None:
        self.guest.start()
        self.guest.check("nfsd_up /export", 60)

    def stop(self) -> None:
        self.guest.stop()

    def mount_path(self, version: str) -> str:
        return "/export" if version == "3" else "/"  # fsid=0 makes it the root of NFSv4

    def digests(self, directory: str) -> dict[str, str]:
        lines = self.guest.check(
            f"cd /export/{directory} && for f in *; do [ -L $f ] || [ -d $f ] || md5sum $f || exit; done", 120
        ).split("\n")
        return {name: digest for digest, name in (line.split() for line in lines if line)}

    def names(self, directory: str) -> list[str]:
        return sorted(self.guest.check(f"ls /export/{directory}").split())

    def link(self, path: str) -> str:
        return self.guest.check(f"readlink /export/{path}").strip("\n")

    def remove_tree(self, directory: str) -> None:
        self.guest.check(f"rm -rf /export/{directory}")


class KnfsdTcp(Reference):
    """The same server as a TCP backend of causewayd, and the guest it runs in as a client of its own, over TCP too."""

    def __init__(self, logs: Path, number: int = 1) -> None:
        super().__init__(Nic("none"), logs, number)
        self.address = f"{self.guest.address}:{NFS_PORT}"

    def delegations(self, client: str) -> list[str]:
        """Delegations that the server has given to the NFSv4 client whose owner name contains `client`."""
        states = self.guest.check(f"for c in /proc/fs/nfsd/clients/*; do grep -q '{client}' $c/info && cat $c/states; done; true")
        return [line for line in states.splitlines() if "type: deleg" in line]

    def open_states(self) -> list[str]:
        """What the server knows of files that NFSv4 clients hold."""
        return self.guest.check("cat /proc/fs/nfsd/clients/*/states; true").splitlines()

    def mount_itself(self, path: str) -> None:
        # The client owner is made of the host name: with that of the other guest the server would take us for it.
        self.guest.check(
            f"hostname second; mkdir -p {path};" f" /sbin/mount.nfs 127.0.0.1:/ {path} -o vers=4.1,proto=tcp,port={NFS_PORT}", 40
        )
