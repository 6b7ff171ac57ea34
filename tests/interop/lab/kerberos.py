"""A realm of its own for Kerberos: a KDC in the sandbox, a key for the NFS service and one for the client's machine, and what the guest
needs to use its own.

A client sets a security context up over TCP, at port 2049 of the address that it mounts from: rpc.gssd has no RPC over RDMA, and asks
there whatever the mount says. So these cases have the gateway and the kernel at one address, and Ganesha at that port. All calls but
those that make a context go through the gateway.
"""

import os
import subprocess
from pathlib import Path

from lab import network
from lab.daemon import Daemon, LabError, wait_until
from lab.guest import Guest
from lab.sandbox import RUN

REALM = "CAUSEWAY.TEST"
SERVER = "gateway.causeway.test"  # the host of the service's name: what clients mount from
CLIENT = "guest.causeway.test"
SERVICE = f"nfs@{SERVER}"
FLAVORS = ("krb5", "krb5i", "krb5p")
NFS_PORT = 2049  # where rpc.gssd asks

DIRECTORY = RUN / "krb5"
KEYTAB = DIRECTORY / "server.keytab"
CREDENTIALS = DIRECTORY / "ganesha"

# No name service: neither a canonical name nor a reverse look-up takes part in the name of a principal.
CONFIG = """
[libdefaults]
    default_realm = {realm}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    permitted_enctypes = aes256-cts-hmac-sha1-96
[realms]
    {realm} = {{
        kdc = {kdc}
    }}
[domain_realm]
    .causeway.test = {realm}
"""

KDC_CONFIG = """
[logging]
    kdc = STDERR
[kdcdefaults]
    kdc_listen = {address}:88
    kdc_tcp_listen = {address}:88
[realms]
    {realm} = {{
        database_name = {directory}/principal
        key_stash_file = {directory}/stash
        supported_enctypes = aes256-cts-hmac-sha1-96:normal
    }}
"""


class Realm:
    def __init__(self, logs: Path) -> None:
        CREDENTIALS.mkdir(parents=True, exist_ok=True)
        self._config = DIRECTORY / "krb5.conf"
        self._config.write_text(CONFIG.format(realm=REALM, kdc=network.CONTROL_HOST))
        profile = DIRECTORY / "kdc.conf"
        profile.write_text(KDC_CONFIG.format(realm=REALM, address=network.CONTROL_HOST, directory=DIRECTORY))
        self.environment = {
            **os.environ,
            "KRB5_CONFIG": str(self._config),
            "KRB5_KDC_PROFILE": str(profile),
            "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
        }
        self._log = logs / "kerberos.log"
        self._kdc = Daemon("krb5kdc", ["/usr/sbin/krb5kdc", "-n"], logs / "krb5kdc.log", self.environment)
        self._client_keytab = DIRECTORY / "client.keytab"

    def start(self) -> None:
        if not Path("/usr/sbin/krb5kdc").exists():
            raise LabError("krb5kdc not found (packages krb5-kdc, krb5-admin-server)")
        if not (DIRECTORY / "principal").exists():
            self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of-this-run-only")
            for host, keytab in ((SERVER, KEYTAB), (CLIENT, self._client_keytab)):
                self._run("kadmin.local", "-q", f"addprinc -randkey nfs/{host}")
                self._run("kadmin.local", "-q", f"ktadd -k {keytab} nfs/{host}")
        self._kdc.start()
        self._kdc.wait_for_line("commencing operation", 10)

    def stop(self) -> None:
        self._kdc.stop(5)

    def join(self, guest: Guest) -> None:
        """The guest's machine is a principal of the realm, and rpc.gssd runs there."""
        guest.send(self._config, "/etc/krb5.conf")
        guest.send(self._client_keytab, "/etc/krb5.keytab")
        guest.check(f"printf '%s\\n' '{network.GATEWAY} {SERVER}' '{guest.address} {CLIENT} guest' >>/etc/hosts; gssd_up")
        wait_until(lambda: guest.run("pidof rpc.gssd")[0] == 0, 10, "rpc.gssd in the guest")

    def _run(self, *command: str) -> None:
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"--- {' '.join(command)}\n{result.stdout}{result.stderr}")
        if result.returncode != 0:
            raise LabError(f"{' '.join(command)}: {result.stderr.strip()}")
