"""NFS-Ganesha, the backend, and the rpcbind it insists on. Exports one directory as "/" to NFSv3 and v4, TCP only."""

import hashlib
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Optional

from lab import kerberos
from lab.daemon import Daemon, LabError
from lab.sandbox import RUN

NFS_PORT = 12049
MOUNT_PORT = 12050

# The same settings, with their reasons, are in deploy/ganesha/ganesha.conf.
CONFIG = """
NFS_CORE_PARAM {{
    NFS_Port = {nfs_port};
    MNT_Port = {mount_port};
    Protocols = 3, 4;
    Enable_NLM = false;
    Enable_RQUOTA = false;
    mount_path_pseudo = true;
}}
NFSV4 {{
    Graceless = true;
    Grace_Period = 5;
    Lease_Lifetime = 20;
    RecoveryRoot = "{state}";
}}
EXPORT {{
    Export_Id = 1;
    Path = "{export}";
    Pseudo = "/";
    Access_Type = RW;
    Squash = No_Root_Squash;
    SecType = {security};
    Protocols = 3, 4;
    Transports = TCP;
    FSAL {{ Name = VFS; }}
}}
"""

KERBEROS_CONFIG = """
NFS_KRB5 {{
    Active_krb5 = true;
    PrincipalName = {service};
    KeytabPath = {keytab};
    CCacheDir = {credentials};
}}
"""


class Ganesha:
    """Started once per rig; kill() and start() again model a crash of the backend."""

    def __init__(self, logs: Path, realm: Optional[kerberos.Realm] = None) -> None:
        """`realm`: no call without Kerberos then."""
        self.port = kerberos.NFS_PORT if realm else NFS_PORT
        self._realm = realm
        self.export = RUN / "export"
        state = RUN / "ganesha"
        for directory in (self.export, state):
            # A rig of before may have left something: a case that failed does not clean up behind itself.
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        config = RUN / "ganesha.conf"
        text = CONFIG.format(
            nfs_port=self.port,
            mount_port=MOUNT_PORT,
            export=self.export,
            state=state,
            security=", ".join(kerberos.FLAVORS) if realm else "sys",
        )
        if realm:
            text += KERBEROS_CONFIG.format(service=kerberos.SERVICE, keytab=kerberos.KEYTAB, credentials=kerberos.CREDENTIALS)
        config.write_text(text)
        # Ganesha writes some state to fixed places; the sandbox has a /var/lib/nfs of its own.
        Path("/var/lib/nfs/ganesha").mkdir(exist_ok=True)
        Path("/run/ganesha").mkdir(exist_ok=True)
        self._rpcbind = Daemon("rpcbind", ["rpcbind", "-f"], logs / "rpcbind.log")
        self._server = Daemon(
            "ganesha",
            [
                "ganesha.nfsd",
                "-F",
                "-f",
                str(config),
                "-L",
                str(logs / "ganesha.log"),
                "-N",
                "NIV_EVENT",
                "-p",
                str(RUN / "ganesha.pid"),
            ],
            logs / "ganesha.out",
            realm.environment if realm else None,
        )

    def start(self) -> None:
        for program in ("rpcbind", "ganesha.nfsd"):
            if shutil.which(program) is None:
                raise LabError(f"{program} not found (packages rpcbind, nfs-ganesha, nfs-ganesha-vfs)")
        if self._realm:
            self._realm.start()
        if not self._rpcbind.alive():
            self._rpcbind.start()
            self._rpcbind.wait_for(lambda: _listens("/run/rpcbind.sock"), 10, "socket")
        self._server.start()
        # The port opens before exports are ready, so ask for an answer: a NULL call of NFSv4.
        self._server.wait_for(lambda: null_call("127.0.0.1", self.port), 40, f"answer on port {self.port}")

    def kill(self) -> None:
        """As a crash: SIGKILL, no farewell to clients."""
        self._server.kill()

    def stop(self) -> None:
        self._server.stop(5)
        self._rpcbind.stop(5)
        if self._realm:
            self._realm.stop()

    def mount_path(self, _version: str) -> str:
        return "/"  # of NFSv3 too: mount_path_pseudo

    # What the case knows of the files without asking the client.

    def digests(self, directory: str) -> dict[str, str]:
        """md5 by file name."""
        return {
            path.name: hashlib.md5(path.read_bytes()).hexdigest()
            for path in (self.export / directory).iterdir()
            if not path.is_symlink() and path.is_file()
        }

    def names(self, directory: str) -> list[str]:
        return sorted(os.listdir(self.export / directory))

    def link(self, path: str) -> str:
        return os.readlink(self.export / path)

    def remove_tree(self, directory: str) -> None:
        subprocess.run(["rm", "-rf", str(self.export / directory)], check=True)


def _listens(path: str) -> bool:
    """Whether somebody takes connections at the name. The name alone says nothing: an rpcbind that has ended leaves it behind, and
    Ganesha ends with status 2 where none answers."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def null_call(address: str, port: int, timeout: float = 2) -> bool:
    """Whether an NFSv4 NULL call gets a successful reply."""
    words = [0x80000028, 0x1234567, 0, 2, 100003, 4, 0, 0, 0, 0, 0]  # record mark, xid, CALL, RPC 2, NFS 4, NULL
    call = b"".join(word.to_bytes(4, "big") for word in words)
    try:
        with socket.create_connection((address, port), timeout=timeout) as connection:
            connection.sendall(call)
            reply: Optional[bytes] = connection.recv(64)
    except OSError:
        return False
    # xid, REPLY, MSG_ACCEPTED, verifier (flavor, length), SUCCESS
    return reply is not None and len(reply) >= 28 and reply[4:8] == call[4:8] and reply[24:28] == bytes(4)
