"""The Linux guest under QEMU, emulated, and its command channel.

One boot (about 6 s) serves many commands: each is one TCP connection to the guest's control program, so commands
can run side by side and one that hangs blocks no other.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Sequence

from lab import image, network
from lab.daemon import Daemon, LabError, wait_until
from lab.sandbox import RUN

CONTROL_PORT = 1024

_STATUS = re.compile(rb"\n@@rc (\d+)\n$")

# Without cmpxchg16b: when an interrupt comes behind it, QEMU 7.2's emulation saves an address in place of the flags, about once
# in five million times. The kernel's allocator lives by that instruction. Its guest then dies by a double fault, or goes on with
# the direction flag set, and copies backwards.
CPU = "max,-cx16"

# Where on its bus the guest finds a NIC that a program is to have.
PCI_ADDRESS = "0000:00:08.0"
# The models of NICs that can be had so, as QEMU takes them behind an IOMMU.
MODELS = {
    "e1000e": "e1000e",
    "vmxnet3": "vmxnet3",
    "virtio": "virtio-net-pci,disable-legacy=on,iommu_platform=on,ats=on,mq={mq},rss={mq},host_mtu={mtu}",
}


@dataclass(frozen=True)
class Nic:
    """The guest's NIC under test: how it is attached, and its MTU (4500 gives RoCE MTU 4096, 1500 gives 1024)."""

    kind: str  # "vhost", "tap" or "none"
    mtu: int = 4500
    socket: Optional[Path] = None  # of the vhost-user backend
    tap: str = ""
    capture: Optional[Path] = None  # pcap of what passes (tap only)
    # How the gateway shares its address with the kernel: "af_xdp", "exception", "" = not at all (tap only). "siw": it uses the kernel's
    # TCP there, and the guest's RDMA device is siw.
    shares: str = ""
    # One of MODELS: a program in the guest has the NIC by vfio-pci, behind an IOMMU, and the guest's kernel does not (tap only).
    model: str = ""
    queues: int = 1  # of the model, where it has several
    iwarp: bool = False  # the guest's RDMA device is siw, whatever is shared
    beside: str = ""  # with a model: the tap of a second NIC, which the guest's kernel has as roce0

    @property
    def rdma(self) -> str:
        return "siw" if self.iwarp or self.shares == "siw" else "rxe"


class Guest:
    def __init__(
        self,
        nic: Nic,
        logs: Path,
        number: int = 2,
        name: str = "guest",
        memory_mb: int = 768,
        kernel: str = image.USUAL,
        cpus: int = 1,
        hugepages: int = 0,
        cpu: str = CPU,
        words: Sequence[str] = (),
    ) -> None:
        """`hugepages` of 2 MiB are set aside at the start. `cpu` is the processor that QEMU emulates, `words` are more for its
        command."""
        self.nic = nic
        self.name = name
        self.number = number  # last part of its addresses
        self.memory_mb = memory_mb
        self.kernel = kernel  # its series
        self.cpus = cpus
        self.cpu = cpu
        self.words = words
        self.hugepages = hugepages
        self.address = f"10.8.0.{number}"
        self.address_v6 = f"fd08::{number}"
        self._tap = f"ctl-{name}"[:15]
        self.log = logs / f"{name}.log"
        self._monitor = RUN / f"{name}.qmp"
        self._qemu = Daemon(name, self._command(), self.log)

    def start(self, timeout: float = 240) -> None:
        network.add_tap(self._tap, 1500, bridge="ctl")
        self._qemu.start()
        self._qemu.wait_for_line(r"guest: ready", timeout)
        wait_until(self._answers, 20, f"{self.name}: control channel")

    def run(self, script: str, timeout: float = 60) -> tuple[int, str]:
        """Runs a shell script in the guest. Returns its exit status and what it printed."""
        output = bytearray()
        # The guest ends the script at `timeout`; the margin is for a guest that hangs.
        deadline = time.monotonic() + timeout + 15
        try:
            with socket.create_connection((self.address, CONTROL_PORT), timeout=10) as channel:
                channel.sendall(f"{int(timeout)}\n{script}\n".encode())
                channel.shutdown(socket.SHUT_WR)
                # Until the status line, not until the end of the stream: a process that cannot be killed, such as
                # a mount nobody answers, keeps the socket open.
                channel.settimeout(1)
                while (match := _STATUS.search(output)) is None:
                    try:
                        data = channel.recv(65536)
                    except TimeoutError:
                        self._check_alive()
                        if time.monotonic() < deadline:
                            continue
                        raise
                    if not data:
                        raise LabError(f"{self.name}: `{_short(script)}` was cut off")
                    output += data
        except OSError as error:
            raise LabError(f"{self.name}: no answer to `{_short(script)}`: {error}") from error
        return int(match[1]), output[: match.start()].decode(errors="replace")

    def check(self, script: str, timeout: float = 60) -> str:
        """Like run, but anything but exit status 0 is an error."""
        rc, output = self.run(script, timeout)
        if rc != 0:
            reason = f"not done in {timeout:g} s" if rc in (124, 137, 143) else f"exit status {rc}"
            raise LabError(f"in the guest, `{_short(script)}`: {reason}: {output.strip()[-400:]}")
        return output

    def send_program(self, program: Path, target: str) -> None:
        """A program of ours is in the guest, without what only a debugger reads."""
        if self.run(f"[ -x {target} ]")[0] == 0:
            return
        small = RUN / program.name
        shutil.copy(program, small)
        if shutil.which("strip"):
            subprocess.run(["strip", str(small)], check=True)
        self.send(small, target)
        self.check(f"chmod +x {target}")

    def send(self, source: Path, target: str) -> None:
        """Copies a file of this machine into the guest, over the control network."""
        with socket.create_server((network.CONTROL_HOST, 0)) as server:
            server.settimeout(20)
            receiver = self.run_aside(f"nc {network.CONTROL_HOST} {server.getsockname()[1]} >{target}", 60)
            with server.accept()[0] as channel, source.open("rb") as content:
                channel.sendfile(content)
            receiver.result()
        size = self.check(f"stat -c %s {target}").strip()
        if size != str(source.stat().st_size):
            raise LabError(f"{self.name}: {size} bytes of {source} arrived, of {source.stat().st_size}")

    def run_aside(self, script: str, timeout: float) -> "Aside":
        return Aside(self, script, timeout)

    def alive(self) -> bool:
        return self._qemu.alive()

    def cpu_seconds(self) -> float:
        """What its emulation has used of this machine's processors."""
        times = Path(f"/proc/{self._qemu.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def set_link(self, up: bool) -> None:
        """The cable of the NIC under test is pulled, or put back: QEMU tells the device (model only)."""
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(30)
            channel.connect(str(self._monitor))
            with channel.makefile("rw") as lines:
                lines.readline()  # its greeting
                for command in (
                    {"execute": "qmp_capabilities"},
                    {"execute": "set_link", "arguments": {"name": "roce", "up": up}},
                ):
                    print(json.dumps(command), file=lines, flush=True)
                    while "return" not in (answer := json.loads(lines.readline())):
                        if "error" in answer:
                            raise LabError(f"{self.name}: QEMU's monitor: {answer['error']}")

    def _check_alive(self) -> None:
        if not self._qemu.alive():
            last_words = re.search(r"(PANIC|Oops|BUG|Kernel panic).*", self._qemu.output())
            raise LabError(f"{self.name} has died: {last_words[0] if last_words else self._qemu.exit_text()}")

    def stop(self) -> None:
        if self._qemu.alive():
            self._qemu.kill()  # it has no disk; nothing is lost
        network.remove(self._tap)

    def _answers(self) -> bool:
        try:
            return self.run("true", 5)[0] == 0
        except LabError:
            return False

    def _command(self) -> list[str]:
        n = self.number
        # vectors=0: with MSI-X, QEMU 7.2 without KVM crashes when a vhost-user NIC starts.
        command = [
            "qemu-system-x86_64",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            self.cpu,
            "-m",
            f"{self.memory_mb}",
            "-serial",
            "stdio",
            "-kernel",
            str(image.kernel(self.kernel)),
            "-initrd",
            str(image.initrd(self.kernel)),
            # no_timer_check: on a busy machine the emulated timer may be late, and the kernel ends for that.
            "-append",
            "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check"
            f" cw.ctl={self.address}/24,{self.address_v6}/64 cw.roce=10.9.0.{n}/24,fd09::{n}/64"
            f" cw.mtu={self.nic.mtu}{' cw.rdma=siw' if self.nic.rdma == 'siw' else ''}"
            f"{f' intel_iommu=on cw.vfio={PCI_ADDRESS}' if self.nic.model else ''}"
            f"{f' hugepages={self.hugepages}' if self.hugepages else ''}",
            "-smp",
            f"{self.cpus}",
            "-device",
            "virtio-rng-pci,vectors=0",
            "-netdev",
            f"tap,id=ctl,ifname={self._tap},script=no,downscript=no",
            "-device",
            f"virtio-net-pci,netdev=ctl,mac=52:54:00:08:00:{n:02x},vectors=0",
        ]
        # No offloads: what leaves the guest is what a wire would carry, checksums filled in.
        offloads = "".join(
            f",{name}=off"
            for name in (
                "csum",
                "gso",
                "host_tso4",
                "host_tso6",
                "host_ecn",
                "host_ufo",
                "guest_csum",
                "guest_tso4",
                "guest_tso6",
                "guest_ecn",
                "guest_ufo",
            )
        )
        card = f"virtio-net-pci,netdev=roce,mac=52:54:00:09:00:{n:02x},host_mtu={self.nic.mtu},vectors=0{offloads}"
        if self.nic.kind == "vhost":
            # reconnect: the NIC comes back when the gateway does.
            command += [
                "-object",
                f"memory-backend-memfd,id=mem,size={self.memory_mb}M,share=on",
                "-numa",
                "node,memdev=mem",
                "-chardev",
                f"socket,id=vhost,path={self.nic.socket},reconnect=1",
                "-netdev",
                "vhost-user,id=roce,chardev=vhost",
                "-device",
                card,
            ]
        elif self.nic.model:
            command += self._card_behind_iommu()
            if self.nic.beside:
                of_kernel = card.replace("netdev=roce,mac=52:54:00:09:00", "netdev=beside,mac=52:54:00:09:01")
                command += [
                    "-netdev",
                    f"tap,id=beside,ifname={self.nic.beside},script=no,downscript=no,vnet_hdr=off",
                    "-device",
                    of_kernel,
                ]
        elif self.nic.kind == "tap":
            command += ["-netdev", f"tap,id=roce,ifname={self.nic.tap},script=no,downscript=no,vnet_hdr=off", "-device", card]
            if self.nic.capture:
                command += ["-object", f"filter-dump,id=dump,netdev=roce,file={self.nic.capture},maxlen=9216"]
        return command + list(self.words)

    def _card_behind_iommu(self) -> list[str]:
        """A machine with an IOMMU, a NIC that what it isolates can be given to, and the monitor, which has the NIC's cable."""
        queues = self.nic.queues
        backend = f"tap,id=roce,ifname={self.nic.tap},script=no,downscript=no,vnet_hdr=off"
        card = MODELS[self.nic.model].format(mq="on" if queues > 1 else "off", mtu=self.nic.mtu)
        return [
            "-machine",
            "q35",
            # caching-mode tells the emulated devices of each change; device-iotlb serves the NIC's ATS.
            "-device",
            "intel-iommu,intremap=on,caching-mode=on,device-iotlb=on",
            "-qmp",
            f"unix:{self._monitor},server=on,wait=off",
            "-netdev",
            f"{backend},queues={queues}" if queues > 1 else backend,
            "-device",
            f"{card},netdev=roce,mac=52:54:00:09:00:{self.number:02x},bus=pcie.0,addr=0x{int(PCI_ADDRESS[8:10], 16):x}",
        ]


class Aside:
    """A guest command running in the background; result() waits for it."""

    def __init__(self, guest: Guest, script: str, timeout: float) -> None:
        self._guest = guest
        self._timeout = timeout
        self._error: Optional[LabError] = None
        self._thread = threading.Thread(target=self._run, args=(script,), daemon=True)
        self._thread.start()

    def running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> None:
        self._thread.join(self._timeout + 30)
        if self._thread.is_alive():
            raise LabError("background command did not end")
        if self._error:
            raise self._error

    def _run(self, script: str) -> None:
        try:
            self._guest.check(script, self._timeout)
        except LabError as error:
            self._error = error


def _short(script: str) -> str:
    lines = script.strip().splitlines()
    return lines[0][:100] if lines else ""
