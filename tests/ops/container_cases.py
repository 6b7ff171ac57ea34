"""The container image: built by its Containerfile, and run by podman as deploy/README.md says.

Base, packages of the gateway and image are made once a run; podman's storage stays in CAUSEWAY_CACHE, so that the layers of Debian's
packages are there the next time. The containers run in a network namespace of the case, which podman takes for the host's network:
what it changes of addresses and packet filters ends with the case. They take minutes, and are a suite of their own: tests/run.sh containers.
"""

import contextlib
import fcntl
import json
import os
import shutil
import socketserver
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Iterator

from cores_cases import OWN_NETWORK, RING, run_in_own_network
from harness import CPUS, GATEWAY_CPU, LOAD_CPU, ROOT, STOP_LIMIT_S, Box, Skip, expect, expect_equal
from iwarp_peer import IwarpPeer
from lab.daemon import wait_until
from lab.gateway_config import gateway_config
from lab.metrics import scrape

CACHE = Path(os.environ.get("CAUSEWAY_CACHE", "/var/cache/causeway-tests")) / "container"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
BASE = "localhost/causeway-base"
IWARP_ALONE = ROOT / "deploy/config/iwarp-alone.toml"
HUGEPAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
HUGE_MB = 256
DOWNLOAD_LIMIT_S = 400  # of Debian's packages, from a mirror that is slow today
METRICS = "127.0.0.1:9464"
PODMAN = """\
[containers]
# Podman's own default is more than a machine without CAP_SYS_RESOURCE gives.
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "none"
tmp_dir = "{cache}/tmp"
[network]
network_backend = "netavark"
network_config_dir = "{cache}/networks"
"""
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{cache}/storage"
runroot = "{cache}/run"
"""


def _podman(box: Box, *words: object, timeout: float = 60) -> str:
    done = box.run("podman", *words, timeout=timeout)
    expect(done.returncode == 0, f"podman {' '.join(map(str, words))}: exit status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def _check_machine(box: Box) -> None:
    if "CAUSEWAY_CONTAINERS" not in os.environ:
        raise Skip("tests/run.sh containers makes the image")
    if os.geteuid() != 0:
        raise Skip("takes root")
    if shutil.which("podman") is None:
        raise Skip("there is no podman")
    if box.run("unshare", "--mount", "--net", "--pid", "--fork", "true").returncode != 0:
        raise Skip("this machine makes no namespaces")


def _settings(box: Box) -> None:
    """Podman's settings for all that this case calls: a storage of our own, and nothing that a machine of test suites may lack."""
    for name, text in (("CONTAINERS_CONF", PODMAN), ("CONTAINERS_STORAGE_CONF", STORAGE)):
        path = box.directory / name.lower()
        path.write_text(text.format(cache=CACHE))
        box.env[name] = str(path)


@contextlib.contextmanager
def _containers(box: Box) -> Iterator[None]:
    """One case at a time, of all that run on this machine; none leaves a container behind."""
    CACHE.mkdir(parents=True, exist_ok=True)
    _settings(box)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            _remove_containers(box)  # those of a run that was killed
            yield
        finally:
            _remove_containers(box)


def _remove_containers(box: Box) -> None:
    box.run("podman", "rm", "--all", "--force", "--time", "0", timeout=60)


def _make_base(box: Box) -> None:
    if box.run("podman", "image", "exists", BASE).returncode == 0:
        return
    base = box.directory / "base.tar"
    # What Debian calls essential, and apt: less than the registry's image has, so that the Containerfile names what it needs.
    done = box.run("mmdebstrap", "--variant=apt", "--dpkgopt=force-unsafe-io", "bookworm", base, MIRROR, timeout=DOWNLOAD_LIMIT_S)
    expect(done.returncode == 0, f"mmdebstrap: {done.stderr[-2000:]}")
    _podman(box, "import", base, BASE)
    base.unlink()


def _make_image(box: Box) -> None:
    """Once a run. The same programs in the same tree make the same package, and podman finds the image made."""
    made = box.directory.parent / "container-image"
    if made.exists():
        return
    _make_base(box)
    packages = box.directory / "packages"
    environment = dict(box.env)
    box.env["DEB_BUILD_OPTIONS"] = "noautodbgsym"
    done = box.run(ROOT / "deploy/build-deb.sh", "--out", packages, "--programs", box.build, timeout=300)
    box.env.clear()
    box.env.update(environment)
    expect(done.returncode == 0, f"build-deb.sh: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    _podman(
        box,
        "build",
        "--network=host",
        f"--build-arg=BASE={BASE}",
        f"--build-context=packages={packages}",
        f"--file={ROOT}/deploy/container/Containerfile",
        "--tag=causeway",
        ROOT,
        timeout=DOWNLOAD_LIMIT_S,
    )
    _podman(box, "image", "prune", "--force")
    made.touch()


def _start(box: Box, config: str, *words: object, page: str = "/readyz") -> None:
    """The container `causeway` with a configuration, as the page says: podman run -d --name causeway ..."""
    file = box.directory / "causeway.toml"
    file.write_text(config)
    file.chmod(0o644)
    volume = f"{file}:/etc/causeway/causeway.toml:ro"
    said = _podman(box, "run", "--rm", "-v", volume, "causeway", "--check-config")
    expect("fine" in said, said)
    doctor = ("doctor", "--config", "/etc/causeway/causeway.toml")
    said = _podman(box, "run", "--rm", *words, "-v", volume, "--entrypoint", "causewayctl", "causeway", *doctor)
    expect("0 faults" in said, said)
    _podman(box, "run", "-d", "--name", "causeway", *words, "-v", volume, "causeway")
    try:
        wait_until(lambda: _page(page)[0] == 200, 30, f"{page} says 200", interval=0.3)
    except Exception as error:
        raise type(error)(f"{error}; the container says {_page('/readyz')}:\n{_logs(box)}") from None


def _logs(box: Box) -> str:
    done = box.run("podman", "logs", "causeway")
    return done.stdout + done.stderr


def _page(path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{METRICS}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def _status_field(box: Box, name: str) -> str:
    """A field of /proc/PID/status of the gateway, which is the container's first process: nothing stands between it and its signals."""
    for line in _podman(box, "exec", "causeway", "cat", "/proc/1/status").splitlines():
        field, _, value = line.partition(":")
        if field == name:
            return value.strip()
    raise ValueError(f"no {name} in /proc/1/status")


def _look(box: Box, user: str, capabilities: int, ready: bool = True) -> None:
    expect_equal("the container's first process", _status_field(box, "Name"), "causewayd")
    uid = _podman(box, "exec", "--user", "0", "causeway", "id", "-u", user).strip()
    expect_equal(f"its user, {user}", _status_field(box, "Uid").split()[0], uid)
    expect_equal("its capabilities", bin(int(_status_field(box, "CapEff"), 16)).count("1"), capabilities)
    status = json.loads(_podman(box, "exec", "causeway", "causewayctl", "status", "--json"))
    expect_equal(f"ready, in {status}", status["ready"], ready)


def _serves(box: Box, *words: object) -> None:
    """A load from outside has all its calls answered, and the gateway counts them."""
    before = scrape(METRICS).total("causeway_rpcrdma_messages_total", direction="rx")
    report = box.directory / "load.json"
    done = box.run(
        box.causeway_load,
        *words,
        *("--lcore", LOAD_CPU, "--op", "echo", "--bytes", "16k", "--connections", 2, "--window", 4),
        *("--seconds", 1, "--warmup", 0, "--json", report),
    )
    expect(done.returncode == 0, f"causeway-load: exit status {done.returncode}: {done.stdout}{done.stderr}\n{_logs(box)}")
    result = json.loads(report.read_text())
    expect_equal("wrong answers, connections lost", (result["wrong"], result["lost"]), (0, 0))
    time.sleep(0.3)  # the gateway's answer is shared by all who ask within a moment
    expect(scrape(METRICS).total("causeway_rpcrdma_messages_total", direction="rx") > before, "/metrics counts no call")


def _stop(box: Box, drain: bool = False) -> None:
    if drain:
        _podman(box, "exec", "causeway", "causewayctl", "drain", "start", "--wait", "--timeout", "10")
    start = time.monotonic()
    _podman(box, "stop", "--time", "30", "causeway")
    took = time.monotonic() - start
    state = json.loads(_podman(box, "inspect", "causeway"))[0]["State"]
    expect_equal(f"exit status of causewayd, which said\n{_logs(box)}\n", state["ExitCode"], 0)
    expect(took < STOP_LIMIT_S, f"it took {took:.1f} s to stop")
    _podman(box, "rm", "causeway")


def _gateway(**values: object) -> str:
    return gateway_config(
        instance="default",
        poll_lcores=GATEWAY_CPU,
        admin="/run/causeway/default.sock",
        **{"metrics": METRICS, **values},  # type: ignore[arg-type]
    )


IMAGE_CASE = "the container image is built, and serves iWARP and RoCE without hugepages"
HUGEPAGES_CASE = "a container serves RoCE from hugepages"


def without_hugepages(box: Box) -> None:
    if os.environ.get(OWN_NETWORK) is None:
        _check_machine(box)
        with _containers(box):
            _make_image(box)
            run_in_own_network(box, IMAGE_CASE)
        return
    _settings(box)
    for words in ("lo up", "gw type veth peer name cl", "gw mtu 4500 up", "cl mtu 4500 up"):
        done = box.run("ip", "link", "add" if "type" in words else "set", *words.split())
        expect(done.returncode == 0, f"ip link {words}: {done.stderr}")
    _iwarp_alone_in_the_network_of_the_host(box)
    _iwarp_in_a_network_of_its_own(box)
    _roce_on_a_packet_socket(box)


class _RpcServer(socketserver.BaseRequestHandler):
    """Answers every call with success and no result, which is all that NULL wants."""

    def handle(self) -> None:
        stream = self.request.makefile("rb")
        while len(head := stream.read(4)) == 4:
            call = stream.read(int.from_bytes(head, "big") & 0x7FFFFFFF)
            # A record of one fragment (RFC 5531, section 11): the xid of the call, REPLY, MSG_ACCEPTED, no verifier, SUCCESS.
            self.request.sendall((0x80000018).to_bytes(4, "big") + call[:4] + (1).to_bytes(4, "big") + bytes(16))


def _iwarp_alone_in_the_network_of_the_host(box: Box) -> None:
    """The whole example, as it is shipped, before a server where it looks for one."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 2049), _RpcServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _start(box, IWARP_ALONE.read_text(), "--network", "host")
        _look(box, "causeway", 0)
        with IwarpPeer("127.0.0.1", 20049) as peer:
            for _ in range(20):
                peer.null_call()
        _stop(box, drain=True)
        server.shutdown()


def _iwarp_in_a_network_of_its_own(box: Box) -> None:
    config = _gateway(listener='transport = "iwarp"', metrics="0.0.0.0:9464")
    _start(box, config, "-p", "20049:20049", "-p", f"{METRICS}:9464")
    _look(box, "causeway", 0)
    _serves(box, "--transport", "iwarp", "--server", "127.0.0.1")
    _stop(box)


def _roce_on_a_packet_socket(box: Box) -> None:
    config = _gateway(
        main_lcore=CPUS[0],
        device=f"net_af_packet0,iface=gw,{RING}",
        port='addresses = ["10.9.0.1/24"]',
        dataplane="memory_mb = 512",
    )
    capabilities = ("--user", "0", "--cap-drop", "all", "--cap-add", "net_raw,net_admin")
    _start(box, config, "--network", "host", *capabilities)
    _look(box, "root", 2)
    _serves(box, *_link(f"net_af_packet0,iface=cl,{RING}"))
    _stop(box, drain=True)


def _link(device: str) -> tuple[object, ...]:
    return ("--device", device, "--address", "10.9.0.2/24", "--server", "10.9.0.1", "--mtu", 4500)


@contextlib.contextmanager
def _hugepages(count: int) -> Iterator[None]:
    """So many more than there are, given back at the end."""
    if not HUGEPAGES.exists():
        raise Skip("the kernel has no hugepages of 2 MiB")
    before = int(HUGEPAGES.read_text())
    HUGEPAGES.write_text(str(before + count))
    more = int(HUGEPAGES.read_text()) - before
    try:
        if more < count:
            raise Skip(f"the machine has memory for {more} hugepages of 2 MiB, and {count} are needed")
        yield
    finally:
        HUGEPAGES.write_text(str(int(HUGEPAGES.read_text()) - more))


def from_hugepages(box: Box) -> None:
    if os.environ.get(OWN_NETWORK) is None:
        _check_machine(box)
        with _containers(box), _hugepages(HUGE_MB // 2 + 8):
            _make_image(box)
            run_in_own_network(box, HUGEPAGES_CASE)
        return
    _settings(box)
    box.run("ip", "link", "set", "lo", "up")
    huge = box.directory / "huge"
    huge.mkdir()
    done = box.run("mount", "-t", "hugetlbfs", "-o", "pagesize=2M", "none", huge)
    expect(done.returncode == 0, f"mount of hugetlbfs: {done.stderr}")
    try:
        _roce_over_memif(box, huge)
    finally:
        _remove_containers(box)
        box.run("umount", "--lazy", huge)


def _roce_over_memif(box: Box, huge: Path) -> None:
    """As deploy/kubernetes/sr-iov runs it, with a link that needs no NIC."""
    links = box.directory / "links"
    links.mkdir()
    config = _gateway(
        main_lcore=CPUS[0],
        device="net_memif0,role=server,socket=/links/link.sock,socket-abstract=no,bsize=8192",
        port='addresses = ["10.9.0.1/24"]',
        dataplane=f"hugepages = true\nmemory_mb = {HUGE_MB}\nrx_buffers = 8192",
    )
    free = _free_hugepages()
    words = ("--network", "host", "--user", "0", "--cap-drop", "all", "--cap-add", "ipc_lock")
    _start(box, config, *words, "-v", f"{huge}:/dev/hugepages", "-v", f"{links}:/links", page="/healthz")
    expect(free - _free_hugepages() >= HUGE_MB // 4, f"of {free} free hugepages {_free_hugepages()} are left: it uses hardly any")
    _look(box, "root", 1, ready=False)  # a memif link is up while somebody is at its other end
    _serves(box, *_link(f"net_memif0,role=client,socket={links}/link.sock,socket-abstract=no,bsize=8192"))
    _stop(box, drain=True)


def _free_hugepages() -> int:
    return int(HUGEPAGES.with_name("free_hugepages").read_text())


CASES = [(IMAGE_CASE, without_hugepages), (HUGEPAGES_CASE, from_hugepages)]
# It changes how many hugepages the machine has.
ALONE = [HUGEPAGES_CASE]
