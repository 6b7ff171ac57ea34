"""Start and end of causewayd: what keeps it from starting is one clear sentence, and SIGTERM ends it in order."""

import os
import re
import signal
import socket
import time
from pathlib import Path

from harness import CPUS, GATEWAY_CPU, LOAD_CPU, Box, Skip, expect, expect_equal


def _says_one_sentence(box: Box, config: Path, *words: str) -> None:
    """causewayd ends with status 1 and a single sentence of its own (DPDK may add lines), which has these words."""
    done = box.run(box.causewayd, "--config", config)
    expect_equal(f"exit status, with {done.stderr!r}", done.returncode, 1)
    own = [line for line in done.stderr.splitlines() if line.startswith("causewayd: ")]
    expect_equal(f"sentences of causewayd in\n{done.stderr}", len(own), 1)
    for word in words:
        expect(word in own[0], f"no {word!r} in {own[0]!r}")


def bad_device(box: Box) -> None:
    _says_one_sentence(box, box.write_config(device="net_nonsense0"), "net_nonsense0")


def unwritable_link(box: Box) -> None:
    device = "net_memif0,role=server,socket=/proc/nowhere/link.sock,socket-abstract=no"
    _says_one_sentence(box, box.write_config(device=device), "/proc/nowhere/link.sock", "writable")


def no_interface_beside_the_kernel(box: Box) -> None:
    """The words of a kernel that has not what net_tap takes are tried where one is; elsewhere there is at least no such interface."""
    config = box.write_config(device="net_tap0,iface=cw-ops,remote=cw-nowhere", port_extra="beside_kernel = true")
    if os.geteuid() != 0:
        raise Skip("takes root")
    _says_one_sentence(box, config, "is the interface of remote= there", "cls_flower")


def taken_metrics_port(box: Box) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        _says_one_sentence(box, box.write_config(metrics=address), address, "in use", "metrics.listen")


def unwritable_admin_socket(box: Box) -> None:
    _says_one_sentence(box, box.write_config(admin="/proc/nowhere/admin.sock"), "/proc/nowhere")


def taken_link(box: Box) -> None:
    """A second process on the link of a living one is refused, over and over, and the first goes on: its driver is never knocked at."""
    first = box.gateway("first")
    first.start_ready()
    load = box.load("--reconnect", seconds=60)
    load.wait_connected()
    for attempt in range(5):
        _says_one_sentence(box, box.write_config(f"second{attempt}"), f"another process listens on {box.directory}/link.sock")
    expect_equal("links that came and went", first.metrics().total("causeway_port_links_refused_total"), 0)
    load.signal(signal.SIGINT)
    report = load.result(status=None)
    expect_equal("wrong, lost", (report["wrong"], report["lost"]), (0, 0))
    first.terminate()
    expect_equal("sockets and locks left behind", sorted(path.name for path in box.directory.glob("*link*")), [])


def taken_vhost_socket(box: Box) -> None:
    """The same of a vhost socket, which a killed gateway leaves behind for the next."""
    device = f"net_vhost0,iface={box.directory}/guest.sock"
    first = box.gateway("first", device=device)
    first.start_ready()
    second = box.write_config("second", device=device)
    for _ in range(3):
        _says_one_sentence(box, second, f"another process listens on {box.directory}/guest.sock")
    for _ in range(100):
        with socket.socket(socket.AF_UNIX) as knocker:
            knocker.connect(f"{box.directory}/guest.sock")
    first.check_alive()
    first.kill()
    third = box.gateway("third", device=device)
    third.start_ready()
    third.terminate()
    expect_equal("left behind", sorted(path.name for path in box.directory.glob("guest.sock*")), [])


def taken_instance(box: Box) -> None:
    """A second process over the admin socket of a living one is refused, and the first goes on."""
    first = box.gateway("first", link="one")
    first.start_ready()
    _says_one_sentence(box, box.write_config("second", link="two", admin=first.admin), first.admin)
    expect("ready" in box.ctl(first, "status"), "the first gateway does not answer any more")
    first.terminate()


def several_poll_cores(box: Box) -> None:
    config = box.write_config()
    config.write_text(config.read_text().replace("poll_lcores = [", "poll_lcores = [64, "))
    _says_one_sentence(box, config, "poll_lcores")


def ends_on(number: signal.Signals, box: Box) -> None:
    gateway = box.gateway()
    gateway.start_ready()
    admin = Path(gateway.admin)
    expect(admin.exists(), "no admin socket")
    gateway.terminate(number)
    expect(not admin.exists(), "the admin socket is left behind")
    expect(not (box.directory / "link.sock").exists(), "the link's socket is left behind")


def ends_with_clients_connected(box: Box) -> None:
    gateway = box.gateway()
    gateway.start_ready()
    load = box.load(connections=4, seconds=60)
    load.wait_connected()
    gateway.terminate()
    # The clients were told, so they know at once and without a time-out of their own.
    report = load.result(20, status=1)
    expect_equal("lost connections", report["lost"], 4)
    expect_equal("wrong answers", report["wrong"], 0)
    expect("all connections are lost" in load.output(), f"causeway-load said\n{load.tail()}")
    expect_equal("connections drained", gateway.output().count("ended: drained"), 4)


def waits_without_the_cpu(box: Box) -> None:
    """With nothing to do no thread keeps a CPU busy, also when main and poll lcore are two: the main thread spun for the poll
    core's end, and took half of a machine of two cores."""
    if len(CPUS) < 2:
        raise Skip("needs two CPUs")
    gateway = box.gateway(main_cpu=str(LOAD_CPU), cpu=str(GATEWAY_CPU))
    gateway.start_ready()
    before = _cpu_ticks(gateway.pid)
    time.sleep(2)
    spent = {name: (ticks - before.get(name, 0)) / os.sysconf("SC_CLK_TCK") for name, ticks in _cpu_ticks(gateway.pid).items()}
    busy = {name: seconds for name, seconds in spent.items() if seconds > 1}
    expect(not busy, f"seconds of CPU time in two idle seconds: {busy}")
    gateway.terminate()
    # The same gateway takes a CPU whole when it is to spin, as far as others leave it.
    spinning = box.gateway("spinning", link="other", main_cpu=str(LOAD_CPU), cpu=str(GATEWAY_CPU), idle="spin")
    spinning.start_ready()
    before = _cpu_ticks(spinning.pid)
    time.sleep(2)
    most = max(ticks - before.get(name, 0) for name, ticks in _cpu_ticks(spinning.pid).items()) / os.sysconf("SC_CLK_TCK")
    expect(most > 2 * max(spent.values()), f"seconds of CPU time in two idle seconds: {most}, asleep {spent}")
    spinning.terminate()


def _cpu_ticks(pid: int) -> dict[str, int]:
    """Clock ticks spent by each thread of the process."""
    ticks = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        ticks[f"{(task / 'comm').read_text().strip()} {task.name}"] = int(fields[11]) + int(fields[12])
    return ticks


def starts_on_one_cpu(box: Box) -> None:
    """Gateway and load on the same CPU: slow, but nothing starves."""
    if len(CPUS) < 2:
        raise Skip("there is only one CPU, so every case is this case")
    gateway = box.gateway(cpu=str(CPUS[0]))
    gateway.start_ready()
    expect_equal("wrong answers", box.load("--lcore", CPUS[0], connections=4, seconds=1).result()["wrong"], 0)
    gateway.terminate()


def _threads_on(process: int, cpu: int) -> int:
    """Threads that may run on this CPU and no other."""
    return sum(f"Cpus_allowed_list:\t{cpu}\n" in status.read_text() for status in Path(f"/proc/{process}/task").glob("*/status"))


def workers_where_they_are_named(box: Box) -> None:
    if len(CPUS) < 2:
        raise Skip("there is one CPU for all threads")
    bound = {}
    for cpu in (GATEWAY_CPU, LOAD_CPU):
        gateway = box.gateway(f"workers-{cpu}", link=f"link{cpu}", dataplane=f"workers = 3\nworker_lcores = [{cpu}]")
        gateway.start_ready()
        box.load(name=f"load{cpu}", link=f"link{cpu}", seconds=1).result()
        bound[cpu] = _threads_on(gateway.pid, GATEWAY_CPU)
        gateway.terminate()
    expect_equal("threads that moved with worker_lcores", bound[GATEWAY_CPU] - bound[LOAD_CPU], 3)


def main_thread_where_it_is_named(box: Box) -> None:
    if len(CPUS) < 2:
        raise Skip("there is one CPU for all threads")
    for cpu in CPUS[:2]:
        gateway = box.gateway(f"main-{cpu}", link=f"link{cpu}", main_cpu=str(cpu))
        gateway.start_ready()
        status = Path(f"/proc/{gateway.pid}/task/{gateway.pid}/status").read_text()
        expect(f"Cpus_allowed_list:\t{cpu}\n" in status, f"main_lcore = {cpu}, but the main thread has\n{status}")
        gateway.terminate()


def _listening(pid: int) -> int:
    """TCP sockets that the process listens on."""
    own = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
    return sum(row[3] == "0A" and f"socket:[{row[9]}]" in own for row in rows)


def metrics_off(box: Box) -> None:
    served = box.gateway("served", link="one")
    served.start_ready()
    expect_equal("TCP sockets that are listened on", _listening(served.pid), 1)
    served.terminate()
    off = box.gateway("off", link="two", metrics="off")
    off.start_ready()
    expect_equal("TCP sockets that are listened on without metrics", _listening(off.pid), 0)
    expect("causeway_build_info" in box.ctl(off, "stats"), "causewayctl has no metrics")
    off.terminate()


def memory_from_hugepages(box: Box) -> None:
    """The memory of packets is in hugepages when the configuration says so, and none are taken otherwise; too few are said."""
    mib, pages = 512, Path("/proc/sys/vm/nr_hugepages")
    if os.geteuid() != 0:
        raise Skip("takes root")
    before = pages.read_text()
    huge = dict(dataplane=f"memory_mb = {mib}\nhugepages = true")
    try:
        pages.write_text("0")
        if int(pages.read_text()) == 0:
            _says_one_sentence(box, box.write_config("none", **huge), "the host has no hugepages", "nr_hugepages")
        pages.write_text("16")
        _says_one_sentence(box, box.write_config("few", **huge), "reserve more hugepages", "nr_hugepages", "memory_mb")
        pages.write_text(str(mib))  # of 2 MiB each: twice as many as it takes
        if int(pages.read_text()) < mib:
            raise Skip("this host has no memory for hugepages")
        free = _free_hugepages()
        gateway = box.gateway("huge", **huge)
        gateway.start_ready()
        expect_equal("MiB of hugepages that it holds", (free - _free_hugepages()) * 2, mib)
        report = box.load(seconds=1).result()
        expect_equal("wrong, lost", (report["wrong"], report["lost"]), (0, 0))
        gateway.terminate()
        expect_equal("free hugepages when it has ended", _free_hugepages(), free)
    finally:
        pages.write_text(before)


def _free_hugepages() -> int:
    return int(re.search(r"HugePages_Free:\s+(\d+)", Path("/proc/meminfo").read_text()).group(1))


CASES = [
    ("a device that does not exist is said in one sentence", bad_device),
    ("a link that cannot be made is said in one sentence", unwritable_link),
    ("an interface beside the kernel that is not there is said in one sentence", no_interface_beside_the_kernel),
    ("a taken metrics port is said in one sentence", taken_metrics_port),
    ("an unwritable admin socket is said in one sentence", unwritable_admin_socket),
    ("an admin socket of a living gateway is not taken over", taken_instance),
    ("a memif link of a living gateway is not taken over", taken_link),
    ("a vhost socket of a living gateway is not taken over, and one of a killed gateway is", taken_vhost_socket),
    ("a CPU that the process may not use is said in one sentence", several_poll_cores),
    ("workers run on the CPUs that are named for them", workers_where_they_are_named),
    ("SIGTERM ends an idle gateway in order", lambda box: ends_on(signal.SIGTERM, box)),
    ("SIGINT ends an idle gateway in order", lambda box: ends_on(signal.SIGINT, box)),
    ("SIGTERM with clients connected disconnects them and ends in order", ends_with_clients_connected),
    ("gateway and load share one CPU", starts_on_one_cpu),
    ("an idle gateway leaves the CPUs alone, unless it is to spin", waits_without_the_cpu),
    ("the main thread runs on the CPU that is named for it", main_thread_where_it_is_named),
    ("the memory of packets is in hugepages when the configuration says so", memory_from_hugepages),
    ("metrics switched off are served nowhere, and causewayctl still has them", metrics_off),
]

ALONE = ["an idle gateway leaves the CPUs alone, unless it is to spin"]  # it spins
