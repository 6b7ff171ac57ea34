"""causeway-load on an RDMA device: the client role on rdma-core, in the client's guest, against the bench program of causewayd on the
same kind of device in its own. All kinds of call, with Read and Write chunks: no answer is wrong. And what it says when there is no connection.
"""

import json
from typing import Any

from lab import network
from lab.daemon import LabError
from lab.gateway import load_program
from lab.gateway_guest import GatewayGuest, loaded, send_bundle
from lab.rig import Rig

PORT = 20050
SECTIONS = f"""
[[listener]]
name = "bench"
transport = "verbs"
device = "{{device}}"
port = {PORT}
backend = "bench"
[[backend]]
name = "bench"
type = "builtin"
programs = ["bench"]
"""
# The payload of all but NULL moves in chunks.
MIXES = {
    "null": "null",
    "echo": "echo/262144",
    "sink": "sink/262144",
    "source": "source/262144",
    "all": "null:4,echo/512:4,echo/262144:1,sink/65536:1,source/65536:1",
}
CALLS_MIN = 9  # of each: more than are in flight at once; the guests are slow


def _run(rig: Rig, name: str, mix: str, *options: str, server: str = network.GATEWAY) -> dict[str, Any]:
    """Its report. Exit status 0 says that all answers were right."""
    command = (
        f"ulimit -l unlimited; {loaded('causeway-load')} --transport verbs --device {rig.wire.verbs} --server {server} --port {PORT}"
        f" --mix {mix} --seconds 8 --warmup 1 --connections 2 --window 4 --plain --json /tmp/load.json {' '.join(options)}"
    )
    status, said = rig.guest.run(command, 120)
    (rig.logs / f"load-{name}.log").write_text(f"{command}\n{said}")
    if status != 0:
        raise LabError(f"{name}: causeway-load ended with status {status}: {said.strip()[-600:]}")
    report: dict[str, Any] = json.loads(rig.guest.check("cat /tmp/load.json"))
    (rig.logs / f"load-{name}.json").write_text(json.dumps(report, indent=1))
    return report


def _refused(rig: Rig, options: str, words: str) -> None:
    """It says why there is no connection, in these words."""
    status, said = rig.guest.run(
        f"ulimit -l unlimited; {loaded('causeway-load')} --transport verbs {options} --seconds 1 --warmup 0", 60
    )
    if status == 0 or words not in said:
        raise LabError(f"causeway-load {options}: status {status}, and no '{words}': {said.strip()[-400:]}")


def load(rig: Rig) -> None:
    server = rig.gateway
    assert isinstance(server, GatewayGuest)
    send_bundle(rig.guest, [load_program()])
    with server.with_sections(SECTIONS.format(device=rig.wire.verbs)):
        for name, mix in MIXES.items():
            report = _run(rig, name, mix)
            counts = {word: report[word] for word in ("calls", "wrong", "failed", "unanswered", "lost", "refused")}
            print(f"   {name}: {counts['calls']} calls, {counts['wrong']} wrong", flush=True)
            if counts.pop("calls") < CALLS_MIN or any(counts.values()):
                raise LabError(f"{name}: {report['calls']} calls, {counts}")
        _run(rig, "v6", MIXES["echo"], server=network.GATEWAY_V6)
        after = server.metrics()
        after.lint()
        for counter in ("causeway_rpcrdma_errors_total", "causeway_rpcrdma_credit_violations_total"):
            if after.total(counter) != 0:
                raise LabError(f"{counter} is {after.total(counter):g}")
        _refused(rig, f"--server {network.GATEWAY} --port 20051", "no listener of the server has that port")
        _refused(rig, "--server 10.9.0.77", "address_unresolved")
        _refused(rig, f"--server {network.GATEWAY} --device nothing0", "there is no RDMA device 'nothing0'")
