#!/usr/bin/env python3
"""Seeds a known fault into the code under each stateful fuzz target, and shows how long the target needs to find it:

    tests/fuzz/seeded.py [TARGET...] [--seconds N] [--seed S] [--jobs N] [--build-options "..."]
    tests/fuzz/seeded.py --check          every patch still applies (a test of the tidy suite)

seeded/TARGET.patch is the fault: one that a change could bring in, of the kind that the target is for. The committed tree is copied
to a directory of its own. For each target the patch is applied there, the target is built as tests/run.sh does, and libFuzzer runs
it twice: from the committed corpus, and from nothing with a seed of its own that is printed. Prints a row of a table (Markdown) for
each target: executions and seconds of CPU time until it is found, and what said so. "not found in N s" is a failure of the target.
"""
import argparse
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from run import input_bytes_max

FUZZ = Path(__file__).resolve().parent
ROOT = FUZZ.parent.parent
PATCHES = FUZZ / "seeded"
OPTIONS = ["-Dfuzz=true", "-Ddpdk=disabled", "-Db_sanitize=address,undefined", "-Db_lundef=false"]
# Several sources compiled as one and reports with lines only: half of the time that it takes.
QUICK = "-Ddebug=false -Dcpp_args=-g1 -Dunity=on -Dunity_size=8"
GRACE_SECONDS = 120  # for the corpus to be read and the last input to end

EXECUTIONS = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
CRASH = re.compile(r"Test unit written to (\S+)")
CAUSES = [
    re.compile(r"^\S*?([\w.]+:\d+): (.*) does not hold$", re.M),
    re.compile(r"internal error: (.* is false at \S+)"),
    re.compile(r"SUMMARY: AddressSanitizer: (\S+)"),
    re.compile(r"([\w.]+:\d+:\d+): (runtime error: .*)"),
    re.compile(r"SUMMARY: (.*)"),
]  # the last resort


@dataclass
class Run:
    found: bool
    executions: int
    seconds: float
    cause: str

    def __str__(self) -> str:
        return f"{self.executions:,} / {self.seconds:.1f} s"


def git(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess:
    return subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def check() -> int:
    """Without git's index, so that it works in any copy of the tree."""
    failed = 0
    targets = re.findall(r"^  '(\w+)': \[", (FUZZ / "meson.build").read_text(encoding="utf-8"), re.M)
    for patch in sorted(PATCHES.glob("*.patch")):
        applied = git("apply", "--check", str(patch))
        problem = applied.stderr.strip() if applied.returncode != 0 else "" if patch.stem in targets else "no such target"
        if problem:
            print(f"{patch.relative_to(ROOT)}: {problem}")
            failed += 1
    print(f"{len(list(PATCHES.glob('*.patch'))) - failed} patches apply, {failed} do not")
    return 1 if failed else 0


def copy_tree(to: Path) -> None:
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "x", "-C", str(to)], input=archive, check=True)


def build(tree: Path, name: str, extra: list[str], jobs: int) -> None:
    out = tree / "build-fuzz"
    if not out.exists():
        environment = os.environ | {"CXX": os.environ.get("CXX", "ccache clang++-14"), "CCACHE_NOHASHDIR": "1"}
        subprocess.run(["meson", "setup", str(out), *OPTIONS, *extra], cwd=tree, env=environment, capture_output=True, check=True)
    done = subprocess.run(
        ["ninja", "-C", str(out), f"-j{jobs}", f"tests/fuzz/{name}_fuzz"],
        capture_output=True,
        text=True,
        env=os.environ | {"CCACHE_NOHASHDIR": "1"},
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stdout[-4000:])


def why(said: str) -> str:
    for cause in CAUSES:
        if found := cause.search(said):
            return " ".join(found.groups())
    return "see the log"


def fuzz(tree: Path, name: str, corpus: Path | None, seconds: int, seed: int) -> Run:
    work = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=tree))
    command = [
        str(tree / "build-fuzz/tests/fuzz" / f"{name}_fuzz"),
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        *input_bytes_max(name),
        "-print_final_stats=1",
        "-timeout=20",
        "-rss_limit_mb=2048",
        f"-artifact_prefix={work}/found-",
        str(work),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        run = subprocess.run(
            command + ([str(corpus)] if corpus else []),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds + GRACE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:  # the others are still worth trying
        return Run(False, 0, 0, "did not end in time")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (tree / f"{name}-{'corpus' if corpus else 'empty'}.log").write_text(run.stderr, encoding="utf-8")
    executions = EXECUTIONS.search(run.stderr)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(
        run.returncode != 0 and bool(CRASH.search(run.stderr)),
        int(executions.group(1)) if executions else 0,
        used,
        why(run.stderr),
    )


def prove(tree: Path, name: str, options: argparse.Namespace) -> bool:
    """The fault is in the tree while this runs."""
    patch = PATCHES / f"{name}.patch"
    subprocess.run(["git", "apply", str(patch)], cwd=tree, check=True)
    try:
        build(tree, name, shlex.split(options.build_options), options.jobs)
        runs = [
            fuzz(tree, name, FUZZ / "corpus" / name, options.seconds, options.seed),
            fuzz(tree, name, None, options.seconds, options.seed),
        ]
    finally:
        subprocess.run(["git", "apply", "-R", str(patch)], cwd=tree, check=True)
    fault = patch.read_text(encoding="utf-8").split("\n\n")[0].replace("\n", " ").removesuffix(".")
    cells = [
        str(run)
        if run.found
        else f"not found in {options.seconds} s ({run.executions:,} executions)"
        if run.executions
        else run.cause
        for run in runs
    ]
    said = next((run.cause for run in runs if run.found), "-").replace("|", "\\|")
    print(f"| {name} | {fault} | {cells[0]} | {cells[1]} | `{said}` |", flush=True)
    return all(run.found for run in runs)


def main() -> int:
    parser = argparse.ArgumentParser(description="How long each fuzz target needs to find a fault that is known.")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=300, help="for each of the two runs (300)")
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at once")
    parser.add_argument("--build-options", default=QUICK)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        return check()
    known = sorted(patch.stem for patch in PATCHES.glob("*.patch"))
    if unknown := set(options.targets) - set(known):
        parser.error(f"no patch for {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    failed = []
    with tempfile.TemporaryDirectory(prefix="causeway-seeded-") as directory:
        tree = Path(directory)
        copy_tree(tree)
        git("init", "-q", cwd=tree)  # so that `git apply` looks at no tree around it
        print(f"seed {options.seed}, at {git('rev-parse', '--short', 'HEAD').stdout.strip()}\n")
        print("| target | seeded fault | from the corpus | from nothing | said by |\n|---|---|---|---|---|", flush=True)
        for name in options.targets or known:
            if not prove(tree, name, options):
                failed.append(name)
    print(f"\n{len(options.targets or known) - len(failed)} passed, {len(failed)} failed {' '.join(failed)}".rstrip())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
