"""deploy/GUIDE.md: its commands, run in its order against a gateway under load. What it shows of their output is one machine's; the first
word of a table's head or of a sentence has to be there."""

import re
import shlex

from harness import ROOT, Box, Gateway, Skip, expect
from lab.daemon import wait_until

GUIDE = ROOT / "deploy/GUIDE.md"
TRIED = ("causewayctl", "causewayd", "curl", "promtool")


def _commands() -> list[tuple[str, list[str]]]:
    """Each with the lines that the guide shows below it."""
    found: list[tuple[str, list[str]]] = []
    shown = False
    for line in GUIDE.read_text(encoding="utf-8").splitlines():
        if line.startswith("    $ "):
            found.append((line[6:], []))
            shown = True
        elif line.startswith("    ") and shown:
            found[-1][1].append(line.strip())
        else:
            shown = False
    return found


def _here(command: str, box: Box, gateway: Gateway) -> list[str]:
    """The command with this gateway's places in it."""
    config = str(box.directory / "gateway.toml")
    text = command.replace("http://127.0.0.1:9464", f"http://{gateway.metrics_address}").replace(
        "/etc/causeway/causeway.toml", config
    )
    for name in ("x.pcapng", "report.tar.gz"):
        text = text.replace(f"/tmp/{name}", str(box.directory / name))
    text = text.replace("deploy/", f"{ROOT}/deploy/")
    words = shlex.split(text)
    programs = {"causewayctl": [str(box.causewayctl), "--socket", gateway.admin], "causewayd": [str(box.causewayd)]}
    return programs.get(words[0], [words[0]]) + words[1:]


def every_command_works(box: Box) -> None:
    commands = _commands()
    expect(len(commands) > 20, f"{len(commands)} commands were found")
    gateway = box.gateway(
        extra='[[client]]\nname = "cluster"\nprefixes = ["10.9.0.0/24"]\nconnections_max = 16\n'
        "bytes_in_flight_max = 67108864\n"
    )
    gateway.start_ready()
    box.load("--reconnect", connections=3, seconds=60).wait_connected()
    for command, shown in commands:
        expect(command.split()[0] in TRIED, f"{command!r}: nobody tries that")
        if command == "causewayctl capture stop":  # clients come back after the drain, and then there are packets
            wait_until(lambda: "complete" in box.ctl(gateway, "capture"), 20, "a capture of 1000 packets")
        try:
            done = box.run(*_here(command, box, gateway), timeout=60)
        except FileNotFoundError as missing:
            raise Skip(str(missing)) from None
        expect(done.returncode == 0, f"{command}: exit status {done.returncode}: {done.stdout}{done.stderr}")
        expect(done.stdout.strip() != "", f"{command}: no output")
        if shown:
            word = re.split(r"[\s:,{]", shown[0])[0]
            text = word if not word.startswith(("/", "0x")) else ""
            expect(text in done.stdout, f"{command}: the guide shows {shown[0]!r}, and there is no {text!r} in\n{done.stdout}")


CASES = [("the operator's guide: every command works", every_command_works)]
