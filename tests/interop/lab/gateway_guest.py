"""causewayd in a guest of its own, for what takes another kernel than this machine's: the program, what it loads and its configuration
are sent there."""

import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence

from lab import ganesha, gateway, metrics, network
from lab.daemon import LabError, wait_until
from lab.ganesha import Ganesha
from lab.guest import CPU, PCI_ADDRESS, Guest, Nic
from lab.metrics import Metrics
from lab.sandbox import RUN

HOME = "/opt/gateway"
PLUGINS = Path("/usr/lib/x86_64-linux-gnu/dpdk")
LOG = "/tmp/causewayd.log"
PID = "/tmp/causewayd.pid"
# DPDK's driver for each model of a NIC.
DRIVERS = {"e1000e": "net_e1000", "vmxnet3": "net_vmxnet3", "virtio": "net_virtio"}
HUGEPAGES = 192  # of 2 MiB
MEMORY_MB = 256


def _libraries(program: Path) -> set[Path]:
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return {Path(word) for word in re.findall(r"(/\S+)(?: \(0x|$)", said)}


def _plugins(driver: str) -> list[Path]:
    if not driver:
        return []  # nor is DPDK started
    needed = ("bus_vdev", "bus_pci", "mempool_ring", "mempool_stack", *driver.split())
    found = [path for name in needed for path in PLUGINS.glob(f"pmds-*/librte_{name}.so.*") if not path.is_symlink()]
    if len(found) != len(needed):
        raise LabError(f"DPDK's plugins are not in {PLUGINS}")
    return found


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["strip", "-o", str(target), str(source)], check=True)


def bundle(target: Path, programs: list[Path], driver: str = "") -> None:
    """The programs, and all that they load, for a machine that has nothing of it. Rdma-core is loaded when it is wanted, and the guests
    have it."""
    root = RUN / "bundle"
    shutil.rmtree(root, ignore_errors=True)  # a rig of before had another driver
    home = root / HOME[1:]
    libraries: set[Path] = set()
    for program in programs:
        _put(program, home / program.name)
        libraries |= _libraries(program)
    # DPDK looks for its plugins where it was compiled to; they link to each other by their short names, and none is to be there twice.
    for plugin in _plugins(driver):
        place = root / str(plugin)[1:]
        _put(plugin, place)
        place.with_name(re.sub(r"(\.so\.\d+).*", r"\1", plugin.name)).symlink_to(plugin.name)
        libraries |= _libraries(plugin)
    for library in libraries:
        if not any(library.name == link.name for link in root.glob("usr/lib/**/*.so.*")):
            (home / "lib").mkdir(exist_ok=True)
            subprocess.run(["cp", "-L", str(library), str(home / "lib" / library.name)], check=True)
    subprocess.run(["tar", "-C", str(root), "-czf", str(target), "."], check=True)


def send_bundle(guest: Guest, programs: list[Path], driver: str = "") -> None:
    """The guest has the programs: loaded() says how each is started."""
    packed = RUN / "bundle.tar.gz"
    bundle(packed, programs, driver)
    guest.send(packed, "/tmp/bundle.tar.gz")
    guest.check("cd / && tar -xzf /tmp/bundle.tar.gz && rm /tmp/bundle.tar.gz", 120)


def loaded(program: str, driver: str = "") -> str:
    path = ":".join([f"{HOME}/lib", *sorted({str(plugin.parent) for plugin in _plugins(driver)})])
    return f"{HOME}/lib/ld-linux-x86-64.so.2 --library-path {path} {HOME}/{program}"


class GatewayGuest:
    """A guest in which causewayd runs, by `device` of DPDK on its RoCE interface, roce0. `port` is what the port's section says of
    addresses, `settings` are sections more, `modules` what the kernel
    does not load by itself. With `rdma`, an RDMA device of the kernel (rxe0, siw0), the gateway serves on that, without DPDK; without it and without
    `device`, on the kernel's TCP. `plugin`: drivers of DPDK that serve_by() will need. With `model`, it has a NIC of that model by
    vfio-pci, with as many `queues`, memory from hugepages, and two poll cores on CPUs of their own; else it has `cores` of them.
    With `beside`, too, the kernel has a second NIC, roce0: the gateway begins there, and its cores are `cores` again. The host's
    bridge roce has the other end of each. The guest's addresses end in `number`. `cpu` and `words` are those of Guest.
    """

    def __init__(
        self,
        logs: Path,
        mtu: int,
        device: str = "",
        port: str = "",
        settings: str = "",
        modules: str = "",
        backend: str = f"{network.CONTROL_HOST}:{ganesha.NFS_PORT}",
        rdma: str = "",
        number: int = 3,
        connections_max: int = 16,
        backend_extra: str = "check_interval_ms = 500\ncall_timeout_s = 30",
        model: str = "",
        queues: int = 1,
        listen: int = gateway.PORT,
        memory_mb: int = 1024,
        plugin: str = "",
        cores: int = 1,
        beside: str = "",
        cpu: str = CPU,
        words: Sequence[str] = (),
    ) -> None:
        nic = Nic("tap", mtu, tap="roce-server", iwarp=rdma.startswith("siw"), model=model, queues=queues, beside=beside)
        memory, hugepages = (memory_mb + 2 * HUGEPAGES, HUGEPAGES) if model else (memory_mb, 0)
        apart = bool(model) and not beside
        cpus = 3 if apart else cores
        self.guest = Guest(
            nic, logs, number=number, name="gateway", memory_mb=memory, cpus=cpus, hugepages=hugepages, cpu=cpu, words=words
        )
        self._poll_lcores = "1, 2" if apart else ", ".join(map(str, range(cores)))
        self._backend = backend
        self._rdma = rdma
        self._mtu = mtu
        self._device = PCI_ADDRESS if apart else device
        self._port = port
        self._settings = settings
        self._connections_max = connections_max
        self._backend_extra = backend_extra
        self._listen = listen
        self._modules = modules
        self._driver = plugin or (DRIVERS[model] if apart else device.partition(",")[0].rstrip("0123456789"))
        self._metrics = f"{self.guest.address}:9464"
        self._log = logs / "causewayd.log"

    def start(self) -> None:
        if self.guest.alive():
            self.launch()  # after its end; the guest is as it was
            return
        network.add_tap("roce-server", self._mtu, bridge="roce", queues=self.guest.nic.queues)
        if self.guest.nic.beside:
            network.add_tap(self.guest.nic.beside, self._mtu, bridge="roce")
        self.guest.start()
        daemon = gateway.default_program()
        send_bundle(self.guest, [daemon, daemon.parent.parent / "apps/causewayctl"], self._driver)
        self._send_configuration()
        self.guest.check("mkdir -p /tmp/run")
        self.guest.check(f"for module in {self._modules}; do /sbin/modprobe $module || exit 1; done")
        self.launch()

    def serve_by(self, device: str = "", port: str = "", rdma: str = "") -> None:
        """A gateway that has ended is to begin again on another device."""
        self._device, self._port, self._rdma = device, port, rdma
        self._send_configuration()

    @contextmanager
    def with_sections(self, sections: str) -> Iterator[None]:
        """It begins again with these in its configuration too, and in the end without them."""
        before = self._settings
        for settings in (f"{before}\n{sections}", before):
            self.end()
            self._settings = settings
            self._send_configuration()
            self.launch()
            if settings != before:
                yield

    def _send_configuration(self) -> None:
        by_vfio = self._device == PCI_ADDRESS
        config = RUN / "guest.toml"
        text = gateway.config_text(
            poll_lcores=self._poll_lcores,
            device=self._device,
            mtu=self._mtu,
            addresses=self._port,
            backend=self._backend,
            backend_extra=self._backend_extra,
            memory=f"memory_mb = {self._memory()}\nrx_buffers = {max(8192, 320 * self._connections_max)}",
            metrics=self._metrics,
            admin="/tmp/admin.sock",
            transport="verbs" if self._rdma else "roce" if self._device else "iwarp",
            rdma=self._rdma,
            hugepages=by_vfio,
            listen=self._listen,
            extra=f"[limits]\nconnections_max = {self._connections_max}\n{self._settings}",
        )
        config.write_text(text)
        self.guest.send(config, "/tmp/causeway.toml")
        if not self._rdma and not by_vfio:
            # rxe of this guest's kernel would be a second one that hears RoCE packets.
            self.guest.check("if rdma link show rxe0/1 >/dev/null 2>&1; then rdma link del rxe0; fi")

    def _memory(self) -> int:
        """In MiB: of many clients the receives take more."""
        return MEMORY_MB if self._connections_max <= 16 else 2 * MEMORY_MB

    def launch(self) -> None:
        """The program, in a guest that has it."""
        # siw asks what a process may lock, whoever's it is.
        self.guest.check(
            f"ulimit -l unlimited; XDG_RUNTIME_DIR=/tmp/run setsid {self._loaded('causewayd')}"
            f" --config /tmp/causeway.toml >{LOG} 2>&1 </dev/null & echo $! >{PID}"
        )
        try:
            wait_until(lambda: "causewayd: ready" in self.log(), 90, "the gateway in its guest", interval=0.5)
        except LabError as error:
            waits = self.guest.run(f"for task in /proc/$(cat {PID})/task/*; do cat $task/comm $task/wchan; echo; done", 20)[1]
            raise LabError(f"{error}; it said: {self.log()[-1000:]}; its threads wait in: {waits}") from error

    def pid(self) -> int:
        return int(self.guest.check(f"cat {PID}"))

    def log(self) -> str:
        return self.guest.run(f"cat {LOG}")[1]

    def ctl(self, *words: str, timeout: float = 90) -> str:
        """What causewayctl says."""
        return self.guest.check(f"{self._loaded('causewayctl')} --socket /tmp/admin.sock {' '.join(words)}", timeout)

    def doctor(self) -> str:
        """What causewayctl doctor says, whatever that is."""
        return self.guest.run(f"{self._loaded('causewayctl')} doctor --config /tmp/causeway.toml", 120)[1]

    def metrics(self) -> Metrics:
        return metrics.scrape(self._metrics, timeout=20)

    def end(self) -> None:
        """SIGTERM has to end it in good order."""
        self._signal("TERM")
        if "info stopped" not in self.log():
            raise LabError(f"the gateway in its guest did not end in order: {self.log()[-300:]}")

    def terminate(self) -> None:
        self.end()

    def kill(self) -> None:
        self._signal("KILL")

    def _signal(self, name: str) -> None:
        """Sends it to the gateway, and waits for its end."""
        self.guest.check(
            f"pid=$(cat {PID}) && kill -{name} $pid && "
            "for i in $(seq 100); do [ -e /proc/$pid ] || exit 0; sleep 0.1; done; exit 1",
            30,
        )

    def stop(self) -> None:
        if self.guest.alive():
            self._log.write_text(self.log())
        self.guest.stop()

    def _loaded(self, program: str) -> str:
        return loaded(program, self._driver)


@contextmanager
def in_front_of(server: GatewayGuest, logs: Path, mtu: int, iwarp: bool = False) -> Iterator[tuple[Ganesha, Guest]]:
    """A backend and a client for the gateway, all three started, with the bridge between the guests. `iwarp`: the client's device is siw."""
    network.add_bridge("roce", mtu)
    network.add_tap("roce-guest", mtu, bridge="roce")
    backend, client = Ganesha(logs), Guest(Nic("tap", mtu, tap="roce-guest", iwarp=iwarp), logs)
    try:
        backend.start()
        server.start()
        client.start()
        yield backend, client
    finally:
        client.stop()
        server.stop()
        backend.stop()
        for link in ("roce-guest", "roce-server", "roce"):
            network.remove(link)
