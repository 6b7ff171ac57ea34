"""causewayd --check-config: the reference is fine, and of a broken file every problem is said with its line."""

import re

from harness import ROOT, Box, expect, expect_equal

GOOD = """\
[[port]]
device = "net_memif0,role=server,socket=/tmp/x.sock,socket-abstract=no"
addresses = ["192.0.2.1/24"]
[[listener]]
backend = "nfs"
[[backend]]
name = "nfs"
address = "127.0.0.1:2049"
"""

# Name, the file, and of each problem its line and a word of it.
BROKEN = (
    (
        "unknown keys and sections",
        GOOD + "[limits]\nconections_max = 4\n[metric]\n",
        ((10, "did you mean 'connections_max'"), (11, "did you mean 'metrics'")),
    ),
    (
        "values out of range or of the wrong type",
        GOOD + "[roce]\nretry_count = 8\npath_mtu_max = 1500\n[dataplane]\nhugepages = 1\n",
        ((10, "retry_count"), (11, "path_mtu_max"), (13, "hugepages")),
    ),
    (
        "references to nothing and names used twice",
        GOOD + '[[listener]]\nbackend = "nsf"\nport = 20050\n[[backend]]\nname = "nfs"\naddress = "127.0.0.1:2050"\n',
        ((10, "did you mean 'nfs'"), (13, "two backends")),
    ),
    (
        "addresses that are none",
        GOOD.replace("192.0.2.1/24", "192.0.2.1").replace("127.0.0.1:2049", "localhost:2049"),
        ((3, "addresses"), (8, "address")),
    ),
    ("text that is not TOML", GOOD + "[limits\nconnections_max = 4\n", ((9, ""),)),
    ("an empty file", "", ((0, "no port"), (0, "no backend"), (0, "no listener"))),
)


def reference_is_fine(box: Box) -> None:
    done = box.run(box.causewayd, "--check-config", ROOT / "deploy/config/causeway.toml")
    expect_equal("exit status", done.returncode, 0)
    expect("fine" in done.stdout, f"said {done.stdout!r}")
    expect_equal("stderr", done.stderr, "")


def reference_explains_every_key(box: Box) -> None:
    """Uncommented, the reference is a configuration too: no key in it is unknown."""
    text = (ROOT / "deploy/config/causeway.toml").read_text()
    path = box.directory / "all.toml"
    path.write_text(re.sub(r"^#(?=[a-z_0-9]+ = )", "", text, flags=re.MULTILINE))
    done = box.run(box.causewayd, "--check-config", path)
    expect("unknown" not in done.stderr, done.stderr.strip())


def says_every_problem(text: str, problems: tuple[tuple[int, str], ...], box: Box) -> None:
    path = box.directory / "broken.toml"
    path.write_text(text)
    done = box.run(box.causewayd, "--check-config", path)
    expect_equal("exit status", done.returncode, 1)
    lines = done.stderr.splitlines()
    errors = [line for line in lines if ": warning: " not in line]
    expect_equal(f"number of problems in\n{done.stderr}", len(errors), len(problems))
    for (number, word), line in zip(problems, errors):
        place = f"{path}:{number}:" if number else f"{path}"
        expect(line.startswith(place) and word in line, f"expected {place} ... {word}: {line!r}")


def missing_file(box: Box) -> None:
    done = box.run(box.causewayd, "--check-config", box.directory / "none.toml")
    expect_equal("exit status", done.returncode, 1)
    expect("none.toml" in done.stderr and "--config" in done.stderr, done.stderr)


def names_the_file_once(box: Box) -> None:
    """`--check-config FILE` is what the pages tell people to type; `--config FILE` beside it means the same file, never another."""
    fine = box.directory / "fine.toml"
    fine.write_text(GOOD)
    broken = box.directory / "broken.toml"
    broken.write_text(GOOD + "[metric]\n")
    for words in (
        ("--check-config", fine),
        (f"--check-config={fine}",),
        ("--check-config", "--config", fine),
        ("-c", fine, "--check-config"),
    ):
        done = box.run(box.causewayd, *words)
        expect_equal(f"exit status of {words}, which said {done.stderr!r}", done.returncode, 0)
        expect_equal(f"what {words} said", done.stdout, f"{fine}: fine\n")
    both = box.run(box.causewayd, "--check-config", broken, "--config", fine)
    expect_equal("exit status with two files", both.returncode, 2)
    expect("give one of them" in both.stderr, both.stderr)


def _broken(text, problems):  # type: ignore[no-untyped-def]
    return lambda box: says_every_problem(text, problems, box)


CASES = [
    ("the reference configuration is fine", reference_is_fine),
    ("every key of the reference configuration exists", reference_explains_every_key),
    *((f"--check-config says every problem with its line: {name}", _broken(text, problems)) for name, text, problems in BROKEN),
    ("--check-config takes the file, or that of --config", names_the_file_once),
    ("--check-config of a missing file says so", missing_file),
]
