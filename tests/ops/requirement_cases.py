"""Requirements on how the gateway is run and tested (tests/requirements/), which no single protocol test shows."""

import json
import re
import sys
from pathlib import Path

from harness import ROOT, Box, Skip, expect, expect_equal
from iwarp_cases import AS_NOBODY, NOBODY, PlainGateway, plain_gateway
from iwarp_peer import IwarpPeer

sys.path.insert(0, str(ROOT / "tests/tidy"))

import spec_coverage  # noqa: E402

REQUIREMENTS = ROOT / "tests/requirements"
# RFC 5042 for RNICs and for the manager of their resources, as RFC 5040 has it.
SECURITY_SECTIONS = ("8.1.1", "8.1.2")
LAYOUTS = re.compile(r"RDMAP-A\.\d-\d+")
FORMATS = re.compile(r"RDMAP-4(\.\d)?-\d+")


def _proofs() -> dict[str, list[spec_coverage.Proof]]:
    problems: list[str] = []
    proofs = spec_coverage.collect(ROOT, problems)
    expect_equal("marks that prove nothing", problems, [])
    return proofs


# Proves RDMAP-8.1-1: each row of what RFC 5040 takes over of RFC 5042 has a test, or stands with its reason among the
# exceptions; and those are about users of an RNIC that the gateway does not have.
def security_requirements_have_their_tests(_: Box) -> None:
    proofs = _proofs()
    problems: list[str] = []
    exceptions = spec_coverage.read_exceptions(REQUIREMENTS / "exceptions.tsv", problems)
    table = spec_coverage.read_tsv(REQUIREMENTS / "rfc5040.tsv", spec_coverage.COLUMNS)
    rows = [row for row in table if row["section"] in SECURITY_SECTIONS]
    states = {row["id"]: spec_coverage.state_of(row, proofs, exceptions) for row in rows}
    expect(problems == [] and len(rows) > 20, f"{len(rows)} rows, {problems}")
    expect_equal("rows without a test or a reason", [row for row, state in states.items() if state == "open"], [])
    excepted = [row for row in rows if states[row["id"]] == "excepted"]
    others = [row["id"] for row in excepted if "no user" not in exceptions[row["id"]]]
    expect_equal("rows excepted for another reason than that there is nobody whom they concern", others, [])
    of_every_rnic = [row["id"] for row in excepted if row["section"] == "8.1.1"]
    expect_equal("requirements on every RNIC without a test", of_every_rnic, [])


# Proves RDMAP-A-1: what shows a layout of the appendix shows rows of section 4 by the same bytes, and its source names the
# sections that decide.
def no_test_relies_on_the_appendix(_: Box) -> None:
    proofs = _proofs()
    cases: dict[str, set[str]] = {}
    for row, found in proofs.items():
        for proof in found:
            cases.setdefault(proof.case, set()).add(row)
    layouts = [row for row in proofs if LAYOUTS.fullmatch(row)]
    expect(len(layouts) >= 7, f"layouts with a test: {layouts}")
    for row in layouts:
        for proof in proofs[row]:
            by_section_4 = [other for other in cases[proof.case] if FORMATS.fullmatch(other)]
            expect(bool(by_section_4), f"{row}: {proof} shows nothing of section 4")
            source = (ROOT / proof.where.partition(":")[0]).read_text()
            expect(
                "RFC 5040" in source and re.search(r"\b4\.\d|RFC 5040 4\b", source) is not None,
                f"{proof} does not say its source",
            )
            expect("appendix A" not in source, f"{proof.where} takes something from the appendix")


def _lets_in(gateway: PlainGateway, source: str, held: list[IwarpPeer]) -> bool:
    try:
        held.append(IwarpPeer("127.0.0.1", gateway.port, source=source))
    except ValueError as error:
        expect("MPA Reply" in str(error), str(error))
        return False
    held[-1].null_call()
    return True


TENANT = '[[client]]\nname = "{}"\nprefixes = ["{}/32"]\nconnections_max = {}\n'


# Proves RDMAP-8.1.2-7: one tenant asks for all connections and gets its quota; the other's are there for it.
def tenants_keep_their_shares(box: Box) -> None:
    greedy, modest = "127.0.0.2", "127.0.0.3"
    limits = "[limits]\nconnections_max = 6\n"
    gateway = plain_gateway(box, extra=limits + TENANT.format("greedy", greedy, 3) + TENANT.format("modest", modest, 3))
    gateway.start_ready()
    held: list[IwarpPeer] = []
    expect_equal("the greedy one gets", sum(_lets_in(gateway, greedy, held) for _ in range(10)), 3)
    expect_equal("the modest one gets", sum(_lets_in(gateway, modest, held) for _ in range(3)), 3)
    refused = gateway.metrics().total("causeway_client_connections_refused_total", client="greedy")
    expect_equal("refusals counted for the greedy one", refused, 7)
    for peer in held:
        peer.null_call()
        peer.close()
    gateway.terminate()


# For the lifetime of a process that is another user's: asks each command that it is told, and prints name and answer.
ASK = """
import json, socket, sys
for command in sys.argv[2:]:
    admin = socket.socket(socket.AF_UNIX)
    admin.settimeout(10)
    admin.connect(sys.argv[1])
    admin.sendall(json.dumps({"command": command}).encode() + b"\\n")
    print(json.dumps([command, json.loads(admin.makefile().readline())]))
    admin.close()
"""
LOOK = {
    *(
        "status",
        "connections",
        "activity",
        "queue_pairs",
        "cores",
        "transport_events",
        "stats",
        "stat_schema",
        "ping_start",
        "ping_show",
    ),
    *("drain_show", "log_level", "settings", "reload_preview", "capture_show", "help"),
}
CHANGE = {"drain_start", "drain_stop", "log_level_set", "reload", "restart", "capture_start", "capture_stop"}


def _ask(box: Box, gateway: PlainGateway, commands: set[str], *prefix: str) -> dict[str, dict]:
    done = box.run(*prefix, sys.executable, "-c", ASK, gateway.admin, *sorted(commands))
    expect(done.returncode == 0, done.stderr)
    return dict(json.loads(line) for line in done.stdout.splitlines())


def _code_of(gateway: PlainGateway) -> set[str]:
    """Files of which something is mapped to be executed."""
    maps = Path(f"/proc/{gateway.pid}/maps").read_text().splitlines()
    return {line.split()[5] for line in maps if "x" in line.split()[1] and len(line.split()) > 5}


# Proves RDMAP-8.1.1-13, RDMAP-8.1.2-3: neither who may look nor a client changes what the gateway does or has, and nothing of
# what anybody may ask for, administrators included, brings new code into the process; with a restart, which is an administrator's,
# another program follows. More places come from an administrator alone.
def no_code_and_no_places_for_others(box: Box) -> None:
    if box.run(*AS_NOBODY, "true").returncode != 0:
        raise Skip("cannot become another user")
    gateway = plain_gateway(box, listener="connections_max = 2")
    config = Path(gateway.admin).parent / "gateway.toml"
    config.write_text(config.read_text().replace("[admin]", f'[admin]\ngroup = "{NOBODY}"'))
    gateway.start_ready()
    code = _code_of(gateway)
    expect(any(path.endswith("causewayd") for path in code), f"code: {code}")
    held: list[IwarpPeer] = []
    expect_equal("places", sum(_lets_in(gateway, "127.0.0.1", held) for _ in range(4)), 2)
    # More places are in the file, and he who may only look asks for them.
    config.write_text(config.read_text().replace("connections_max = 2", "connections_max = 3"))
    known = set(_ask(box, gateway, {"help"}, *AS_NOBODY)["help"]["commands"])
    expect_equal("commands", known, LOOK | CHANGE)
    answers = _ask(box, gateway, known, *AS_NOBODY)
    refused = {name for name, answer in answers.items() if answer.get("kind") == "refused"}
    expect_equal("what somebody who may look is refused", refused, CHANGE)
    expect(not _lets_in(gateway, "127.0.0.1", held), "a place more, without an administrator")
    held.pop().send(b"\x7fELF" + bytes(200), number=9)  # a client that sends a program is told that it is wrong
    # restart is asked for elsewhere: the program that follows is the one that root has installed, and an administrator's to start.
    answers = _ask(box, gateway, known - {"drain_start", "restart"})
    expect("error" not in answers["reload"] and answers["reload"]["applied"], f"reload by root: {answers['reload']}")
    expect(
        _lets_in(gateway, "127.0.0.1", held) and _lets_in(gateway, "127.0.0.1", held),
        "no place more, though an administrator has said so",
    )
    expect_equal("code that has come into the process", _code_of(gateway) - code, set())
    for peer in held:
        peer.close()
    gateway.terminate()


CASES = [
    ("requirements: what RFC 5042 asks of an RNIC has its tests", security_requirements_have_their_tests),
    ("requirements: no test relies on the RFC's appendix alone", no_test_relies_on_the_appendix),
    ("requirements: a tenant that asks for everything gets its share", tenants_keep_their_shares),
    ("requirements: no code, and no more places, for those who may only look", no_code_and_no_places_for_others),
]
