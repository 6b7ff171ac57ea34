"""--help, --version and wrong usage of each program."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from harness import ROOT, Box, Skip, expect, expect_equal

PROGRAMS = ("apps/causewayd", "apps/causewayctl", "apps/load/causeway-load")

# Options that the documentation relies on.
OPTIONS = {
    "causewayd": ("--config", "--check-config", "--verbose", "--version"),
    "causewayctl": ("--socket", "--instance", "--json", "--version", "status", "connections", "stats"),
    "causeway-load": (
        "--device",
        "--address",
        "--server",
        "--op",
        "--bytes",
        "--connections",
        "--window",
        "--seconds",
        "--reconnect",
        "--json",
        "--version",
        "--mix",
        "--rate",
        "--churn",
        "--scenario",
        "--list",
        "--loss",
        "--csv",
        "--html",
    ),
}

_LOAD = ("--device", "net_null0", "--address", "10.9.0.2/24", "--server", "10.9.0.1")

# Beside an unknown option, which all of them refuse.
WRONG_USAGE = {
    "causewayd": (("--config",), ("nonsense",)),
    "causewayctl": ((), ("nonsense",), ("--json",), ("--socket", "/tmp/x", "--instance", "x", "status"), ("status", "nonsense")),
    "causeway-load": (
        (),
        _LOAD[:4],
        (*_LOAD, "--window", "0"),
        (*_LOAD, "--op", "nonsense"),
        (*_LOAD, "--gateway", "nonsense"),
        (*_LOAD, "--mix", "nonsense"),
        (*_LOAD, "--rate", "nonsense"),
        (*_LOAD, "--connections", "0"),
        (*_LOAD, "--scenario", "nonsense"),
        (*_LOAD, "--mix", "null", "--op", "echo"),
        ("--device", "net_null0", "--address", "10.9.0.2/33", "--server", "10.9.0.1"),
        ("--device", "net_null0", "--address", "10.9.0.2/24", "--server", "localhost"),
    ),
}


def explains_itself(program: str, box: Box) -> None:
    done = box.run(box.build / program, "--help")
    expect_equal("exit status of --help", done.returncode, 0)
    for option in OPTIONS[Path(program).name]:
        expect(option in done.stdout, f"--help does not mention {option}")


def says_its_version(program: str, box: Box) -> None:
    done = box.run(box.build / program, "--version")
    expect_equal("exit status of --version", done.returncode, 0)
    name = Path(program).name
    expect(re.fullmatch(name + r" \d+\.\d+\.\d+\n", done.stdout) is not None, f"--version said {done.stdout!r}")
    expect_equal("what -V says", box.run(box.build / program, "-V").stdout, done.stdout)


def refuses_wrong_usage(program: str, box: Box) -> None:
    """Status 2, told from a failure by it, and a pointer to --help."""
    expect("2 wrong usage" in box.run(box.build / program, "--help").stdout, "--help does not promise the exit status")
    for words in (("--nonsense",), *WRONG_USAGE[Path(program).name]):
        done = box.run(box.build / program, *words)
        expect_equal(f"exit status of {words}, which said {done.stderr!r}", done.returncode, 2)
        expect("--help" in done.stdout + done.stderr, f"{words}: no pointer to --help: {done.stderr!r}")


def manual_names_its_options(box: Box) -> None:
    """causewayd's page is written by hand; those of causewayctl are made from its tables."""
    page = (ROOT / "deploy/man/causewayd.8").read_text().replace("\\-", "-")
    options = re.findall(r"(--[a-z-]+)", box.run(box.causewayd, "--help").stdout)
    missing = sorted(option for option in set(options) if option not in page)
    expect_equal("options that causewayd.8 does not name", missing, [])
    for name in ("causewayctl", "causeway.toml"):
        made = box.run(box.causewayctl, "manual", name)
        expect(made.returncode == 0 and made.stdout.startswith(f".TH {name} "), made.stdout[:200])


# What each shell offers for the words of a command line, the last of which is begun: its own machinery where it can be asked for
# that without a terminal (fish), else the function that the script defines.
SHELLS = {
    "bash": 'source "$script"; COMP_WORDS=(causewayctl "$@"); COMP_CWORD=$#; _causewayctl; printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": 'compdef() { :; }; _files() { print /; }; _describe() { print -l "${(@P)2}"; }; source "$script"; '
    'words=(causewayctl "$@"); CURRENT=$#words; _causewayctl',
    "fish": "source $script; complete --do-complete (string join -- ' ' causewayctl $argv)",
}


def shells_complete(box: Box) -> None:
    """Words, files, and names that only the running gateway knows, in each shell; without a gateway, nothing and no message."""
    gateway = box.gateway()
    gateway.start_ready()
    for shell, ask in SHELLS.items():
        if shutil.which(shell) is None:
            raise Skip(f"there is no {shell}")
        script = box.directory / f"completion.{shell}"
        script.write_text(box.run(box.causewayctl, "completion", shell).stdout)

        def offers(*words: str) -> str:
            done = subprocess.run(
                [shell, "-c", ask, "--" if shell == "fish" else shell, *words],
                env={**os.environ, "PATH": f"{box.causewayctl.parent}:{os.environ['PATH']}", "script": str(script)},
                cwd=box.directory,
                capture_output=True,
                text=True,
                timeout=20,
                check=False,
            )
            expect_equal(f"what {shell} says to {words}", done.stderr, "")
            return done.stdout

        expect("connections" in offers("conn"), f"{shell} offers {offers('conn')!r}")
        expect("established" in offers("connections", "state", "est"), shell)
        expect("/" in offers("config", "check", "/et"), f"{shell} offers no file: {offers('config', 'check', '/et')!r}")
        of_listener = ("--socket", gateway.admin, "listeners", "backend")
        expect("bench" in offers(*of_listener, "be"), f"{shell} offers {offers(*of_listener, 'be')!r}")
        expect_equal(
            f"what {shell} offers without a gateway", offers("--socket", "/nowhere", "listeners", "backend", "be").strip(), ""
        )
    gateway.terminate()


def _bind(check, program):  # type: ignore[no-untyped-def]
    return lambda box: check(program, box)


CASES = [
    (f"{Path(program).name} {name}", _bind(check, program))
    for program in PROGRAMS
    for name, check in (
        ("explains itself with --help", explains_itself),
        ("says its version", says_its_version),
        ("refuses wrong usage with status 2 and points to --help", refuses_wrong_usage),
    )
]
CASES.append(("the manual pages name every option", manual_names_its_options))
CASES.append(("bash, zsh and fish complete the words of causewayctl", shells_complete))
