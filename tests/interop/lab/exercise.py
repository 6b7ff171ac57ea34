"""A workload like a real one: causeway-exerciser (../../exerciser/) on several mounts at once, a source tree unpacked beside it.

The exerciser compares all it reads with its model, in the guest. Here its model is compared with what the server has, and the
tree with what it was made of. A case prints its seed; what the exerciser said is in exerciser-*.log beside the other logs.
"""

import itertools
import os
import random
import re
import tarfile
import time
import zlib
from pathlib import Path
from typing import Callable, Optional

from lab.daemon import LabError, wait_until
from lab.ganesha import Ganesha
from lab.guest import Aside
from lab.rig import Rig
from lab.sandbox import RUN

VERSIONS = ("3", "4.0", "4.1", "4.2")
# A directory of its own for each case: a name that was removed behind the server's back may be remembered there as missing.
_numbers = itertools.count(1)
IN_GUEST = "/tmp/causeway-exerciser"
TREE_SOURCE = Path("/usr/include")  # what any machine that builds has thousands of
LARGEST_IN_TREE = 300_000
WORKERS = 2  # of each exerciser
AT_LEAST = 30  # operations of each worker, also on a machine that is slow

# With packet loss and several calls at once rdma_rxe of Linux 6.1 gets stuck: the guest's kernel says "rxe_reg_fast_mr: ... not
# free" and its queue pair does nothing more, without a word to the NFS client. That hangs up when a call times out, after 60 s
# unless told otherwise (in tenths of a second). A client whose gateway was killed waits as long for calls that were acknowledged; in
# runs of a minute and more it has the time.
IMPATIENT = ",timeo=50"
LONG_S = 60

# One thing that goes wrong: after which part of the run, how, and how it is put right.
Trouble = tuple[float, Callable[[Rig], None], Callable[[Rig], None]]


def exercise(
    seconds: int,
    tree_files: int,
    percent: int = 0,
    troubles: tuple[Trouble, ...] = (),
    check: Optional[Callable[[Rig], None]] = None,
    more: str = "",
) -> Callable[[Rig], None]:
    """`seconds` of operations on each version's mount at once, with `percent` of packets lost each way, and `troubles`.
    `more`: mount options, each after a comma."""

    def body(rig: Rig) -> None:
        directory, export = _prepare(rig)
        seed = random.getrandbits(32)
        tree = _make_tree(rig, tree_files)
        patience = 8 * seconds + 400
        replays = bool(troubles) or percent != 0  # connections will break
        with rig.mounted_beside(VERSIONS, more + (IMPATIENT if percent or (troubles and seconds < LONG_S) else "")) as places:
            if percent:
                rig.guest.check(f"loss_on {percent}")
            try:
                # One connection to the guest for all of them: its control program takes few at a time.
                script = "\n".join(
                    _aside(version, _exerciser(places, directory, version, seed, seconds, replays))
                    + _aside(f"tree{version}", _unpack(f"{places[version]}/{directory}/tree{version}"))
                    for version in VERSIONS
                )
                job = rig.guest.run_aside(f"rm -f /tmp/aside-*\n{script}\nwait", patience)
                _trouble(rig, seconds, troubles, job)
                job.result()
                operations = sum(_report(rig, version, seed) for version in VERSIONS)
                if percent:
                    _dropped(rig)
            finally:
                if percent:
                    rig.guest.check("loss_off")
            (rig.logs / "mountstats.log").write_text(rig.guest.check("cat /proc/self/mountstats"))
        print(f"   {operations} operations on {len(VERSIONS)} mounts, seed {seed}", flush=True)
        for version in VERSIONS if export else ():
            _compare_manifest(rig, export / f"nfs{version}", version)
            _compare_tree(tree, export / f"tree{version}")
        rig.backend.remove_tree(directory)
        if check:
            check(rig)

    return body


def damage(rig: Rig) -> None:
    """One bit of what the server has is flipped before the exerciser compares for the last time: it must find that very byte."""
    directory, export = _prepare(rig)
    assert export
    with rig.mounted_beside(("4.1",)) as places:
        at = f"{places['4.1']}/{directory}/damage"
        rig.guest.check("rm -f /tmp/damaged /tmp/aside-*")
        command = f"{IN_GUEST} --seconds 1 --at-least 20 --workers 1 --drop-caches --hold /tmp/damaged {at}"
        job = rig.guest.run_aside(f"{_aside('damage', command)}wait", 120)
        wait_until(
            lambda: not job.running() or "holding" in rig.guest.run("cat /tmp/aside-damage.log")[1],
            90,
            "the exerciser holds",
            interval=0.5,
        )
        if not job.running():
            raise LabError(f"the exerciser ended before it was done: {rig.guest.run('cat /tmp/aside-damage.log')[1][-600:]}")
        rig.guest.check("sync")
        victim = max((path for path in (export / "damage").rglob("*") if _is_plain(path)), key=lambda path: path.stat().st_size)
        offset = random.randrange(victim.stat().st_size)
        with victim.open("r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes((byte ^ 4,)))
        rig.guest.check("touch /tmp/damaged")
        job.result()
        status = rig.guest.check("cat /tmp/aside-damage.status").strip()
        report = rig.guest.check("cat /tmp/aside-damage.log")
        names = [
            at + "/" + str(path.relative_to(export / "damage"))
            for path in (export / "damage").rglob("*")
            if _is_plain(path) and path.samefile(victim)
        ]
        told = re.search(r"^FAIL (.*): offset (\d+): expected 0x(..), got 0x(..); 1 bytes are wrong$", report, re.MULTILINE)
        if status != "1" or not told or told[1] not in names or int(told[2]) != offset:
            raise LabError(f"bit 2 of byte {offset} of {names} was flipped; status {status}, report: {report[-600:]}")
        if (int(told[3], 16), int(told[4], 16)) != (byte, byte ^ 4):
            raise LabError(f"byte {byte:#x} was made {byte ^ 4:#x}; the report says {told[0]}")
    rig.backend.remove_tree(directory)


def program() -> Path:
    root = Path(__file__).resolve().parents[3]
    return Path(os.environ.get("CAUSEWAY_EXERCISER", root / "build/tests/exerciser/causeway-exerciser"))


def send_program(rig: Rig) -> None:
    """The exerciser is in the guest, as IN_GUEST."""
    if not program().exists():
        raise LabError(f"no {program()}: build it, or name it in CAUSEWAY_EXERCISER")
    rig.guest.send_program(program(), IN_GUEST)


def _prepare(rig: Rig) -> tuple[str, Optional[Path]]:
    """The program in the guest, a directory with one for each tree in the export. Returns its name there, and its path if this
    machine has it."""
    directory = f"exercise{next(_numbers)}"
    send_program(rig)
    if not isinstance(rig.backend, Ganesha):
        trees = " ".join(f"/export/{directory}/tree{version}" for version in VERSIONS)
        rig.backend.guest.check(f"mkdir -p {trees}")
        return directory, None
    export = rig.backend.export / directory
    for new in (export, *(export / f"tree{version}" for version in VERSIONS)):
        new.mkdir()
    return directory, export


def _aside(name: str, command: str) -> str:
    """A line of a script that starts the command beside what follows; its output and exit status are left in files."""
    return f"{{ ( {command} ) >/tmp/aside-{name}.log 2>&1; echo $? >/tmp/aside-{name}.status; }} &\n"


def _exerciser(places: dict[str, str], directory: str, version: str, seed: int, seconds: int, replays: bool) -> str:
    number = VERSIONS.index(version)
    inside = f"{directory}/nfs{version}"
    other = places[VERSIONS[(number + 1) % len(VERSIONS)]]
    return (
        f"{IN_GUEST} {places[version]}/{inside} --other {other}/{inside} --seed {seed + number} --seconds {seconds}"
        f" --at-least {AT_LEAST} --workers {WORKERS} --bytes-max 300000 --entries-max 150"
        f" --drop-caches --keep --manifest /tmp/manifest{version}{' --replays' if replays else ''}"
    )


def _unpack(target: str) -> str:
    """Unpacked onto the mount and compared, in the guest, with a copy that never left it. No mkdir: sent twice, it fails."""
    return f"tar xf /tmp/tree.tar -C {target} && drop_caches && diff -r /tmp/tree {target}"


def _report(rig: Rig, version: str, seed: int) -> int:
    """The number of operations, when the exerciser and the tree beside it ended well."""
    report = rig.guest.check(f"cat /tmp/aside-{version}.log")
    with (rig.logs / f"exerciser-nfs{version}.log").open("a") as log:
        log.write(report)
    status = rig.guest.check(f"cat /tmp/aside-{version}.status /tmp/aside-tree{version}.status").split()
    if status[0] != "0":
        wrong = report[max(0, report.find("FAIL")) :]
        raise LabError(f"exerciser on nfs{version}, seed {seed}: exit status {status[0]}: {wrong.strip()[:1500]}")
    if status[1] != "0":
        raise LabError(f"tree on nfs{version}: {rig.guest.check(f'cat /tmp/aside-tree{version}.log').strip()[-600:]}")
    done = re.search(r"^(\d+) operations, ", report, re.MULTILINE)
    if not done or int(done[1]) < AT_LEAST * WORKERS:
        raise LabError(f"exerciser on nfs{version}: it did hardly anything: {report.strip()[-400:]}")
    return int(done[1])


def _trouble(rig: Rig, seconds: int, troubles: tuple[Trouble, ...], job: Aside) -> None:
    start = time.monotonic()
    for part, break_it, mend_it in troubles:
        time.sleep(max(0.0, start + part * seconds - time.monotonic()))
        break_it(rig)
        time.sleep(2)
        running = job.running()
        mend_it(rig)
        if not running:
            raise LabError("the exercise was over before its trouble; nothing was shown")


def _dropped(rig: Rig) -> None:
    counts = dict(line.split() for line in rig.guest.check("loss_counts").splitlines())
    if not all(int(counts.get(way, 0)) > 0 for way in ("in", "out")):
        raise LabError(f"netem dropped nothing: {counts}")


def _make_tree(rig: Rig, count: int) -> dict[str, bytes]:
    """The first `count` files below TREE_SOURCE, as an archive and unpacked in the guest. Returns what is in them, by path."""
    tree: dict[str, bytes] = {}
    archive = RUN / "tree.tar"
    with tarfile.open(archive, "w") as tar:
        for folder, folders, names in os.walk(TREE_SOURCE):
            folders.sort()
            for name in sorted(names):
                path = Path(folder, name)
                if path.is_symlink() or path.stat().st_size > LARGEST_IN_TREE or len(tree) == count:
                    continue
                inside = str(path.relative_to(TREE_SOURCE))
                tar.add(path, inside)
                tree[inside] = path.read_bytes()
    rig.guest.send(archive, "/tmp/tree.tar")
    rig.guest.check("rm -rf /tmp/tree && mkdir /tmp/tree && tar xf /tmp/tree.tar -C /tmp/tree", 120)
    return tree


def _compare_tree(tree: dict[str, bytes], place: Path) -> None:
    on_server = {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_file()}
    if on_server.keys() != tree.keys():
        raise LabError(f"{place}: the server has other files than the archive: {sorted(on_server.keys() ^ tree.keys())[:5]}")
    for inside, content in tree.items():
        if on_server[inside].read_bytes() != content:
            raise LabError(f"{place}/{inside} on the server differs from what is in the archive")


def _compare_manifest(rig: Rig, place: Path, version: str) -> None:
    """What the exerciser's model has at the end, and what the server has."""
    model: dict[str, str] = {}
    for line in rig.guest.check(f"cat /tmp/manifest{version}").splitlines():
        crc, size, path = line.split(" ", 2)
        model[path] = f"{crc} {size}"
    # Symbolic links are names only; ".nfs..." is a client's name for a file that was removed while open.
    files = (path for path in place.rglob("*") if _is_plain(path) and not path.name.startswith(".nfs"))
    server = {str(path.relative_to(place)): _manifest_entry(path) for path in files}
    if not model or model != server:
        different = [name for name in sorted(model.keys() | server.keys()) if model.get(name) != server.get(name)]
        raise LabError(f"nfs{version}: model and server disagree on {', '.join(different[:5])}")


def _is_plain(path: Path) -> bool:
    """A file and not a link to one: the exerciser's links lead nowhere, some of them by too long a name."""
    return not path.is_symlink() and path.is_file()


def _manifest_entry(path: Path) -> str:
    content = path.read_bytes()
    return f"{zlib.crc32(content):08x} {len(content)}"
