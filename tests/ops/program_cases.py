"""--help, --version and wrong usage of each program."""

import re
from pathlib import Path

from harness import Box, expect, expect_equal

PROGRAMS = ("dataplane/causewayd", "control/ctl/causewayctl", "tests/loadgen/causeway-load")

# Options that the documentation relies on.
OPTIONS = {
    "causewayd": ("--config", "--check-config", "--verbose", "--version"),
    "causewayctl": ("--socket", "--instance", "--json", "--version", "status", "connections", "stats"),
    "causeway-load": ("--device", "--address", "--server", "--op", "--bytes", "--connections", "--window", "--seconds",
                      "--reconnect", "--json", "--version"),
}


def explains_itself(program: str, box: Box) -> None:
    done = box.run(box.build / program, "--help")
    expect_equal("exit status of --help", done.returncode, 0)
    for option in OPTIONS[Path(program).name]:
        expect(option in done.stdout, f"--help does not mention {option}")


def says_its_version(program: str, box: Box) -> None:
    done = box.run(box.build / program, "--version")
    expect_equal("exit status of --version", done.returncode, 0)
    expect(re.search(r"\b\d+\.\d+\.\d+\b", done.stdout) is not None, f"--version said {done.stdout!r}")
    expect_equal("lines of --version", len(done.stdout.splitlines()), 1)


def refuses_unknown_options(program: str, box: Box) -> None:
    done = box.run(box.build / program, "--nonsense")
    expect(done.returncode not in (0, -6, -11), f"exit status {done.returncode}")
    said = done.stdout + done.stderr
    expect("--help" in said, f"does not point to --help: {said!r}")


def _bind(check, program):  # type: ignore[no-untyped-def]
    return lambda box: check(program, box)


CASES = [(f"{Path(program).name} {name}", _bind(check, program))
         for program in PROGRAMS
         for name, check in (("explains itself with --help", explains_itself), ("says its version", says_its_version),
                             ("refuses unknown options and points to --help", refuses_unknown_options))]
