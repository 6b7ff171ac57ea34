"""causewayctl's grammar against a running gateway: filters, --json, --watch, exit statuses."""

import json
import re
import subprocess
from typing import Any

from harness import CREDITS, Box, Gateway, Load, expect, expect_equal


def _under_load(box: Box, **options: Any) -> tuple[Gateway, Load]:
    gateway = box.gateway()
    gateway.start_ready()
    load = box.load(**options)
    load.wait_connected()
    return gateway, load


def _ctl(box: Box, gateway: Gateway, *words: str) -> "subprocess.CompletedProcess[str]":
    return box.run(box.causewayctl, "--socket", gateway.admin, *words)


def filters_choose_rows(box: Box) -> None:
    gateway, load = _under_load(box, connections=3)
    rows = box.ctl_json(gateway, "connections", "show", "client", "10.9.0.0/24", "state", "established")["connections"]
    expect_equal("connections of the client's network", len(rows), 3)
    expect_equal("of another network", box.ctl_json(gateway, "conn", "client", "10.8.0.0/16")["connections"], [])
    one = box.ctl_json(gateway, "connections", "lqpn", hex(rows[1]["local_qpn"]))["connections"]
    expect_equal("the one with this queue pair", [row["id"] for row in one], [rows[1]["id"]])
    expect_equal("of no listener", box.ctl(gateway, "connections", "listener", "none"), "no connections\n")
    expect_equal("ports", [row["path_mtu"] for row in box.ctl_json(gateway, "ports", "link", "yes")["ports"]], [4096])
    expect_equal("backends", [row["name"] for row in box.ctl_json(gateway, "backends", "show", "type", "builtin")["backends"]], ["bench"])
    core = box.ctl_json(gateway, "cores", "show")["cores"][0]
    expect(core["busy_seconds"] > 0 and core["connections"] == 3, f"the core: {core}")
    load.result()
    gateway.terminate()


def queue_pairs_tell_their_state(box: Box) -> None:
    gateway, load = _under_load(box, window=8, seconds=3)
    connection = box.ctl_json(gateway, "connections")["connections"][0]
    first = box.ctl_json(gateway, "qp", "show", "lqpn", str(connection["local_qpn"]))["queue_pairs"][0]
    expect_equal("state, peer, connection", (first["state"], first["remote_qpn"], first["connection"]),
                 ("RTS", connection["remote_qpn"], connection["id"]))
    expect(first["packets_in_flight"] <= first["window_packets"] == 128, f"window: {first}")
    expect(0 < first["receives_posted"] <= CREDITS + 16, f"receives: {first['receives_posted']}")
    expect(0 < first["round_trip_seconds"] < 5, f"round trip: {first['round_trip_seconds']}")
    second = box.ctl_json(gateway, "qp")["queue_pairs"][0]
    expect(second["packets_in"] > first["packets_in"] and second["payload_bytes_out"] > first["payload_bytes_out"], "nothing moves")
    text = box.ctl(gateway, "qp", "lqpn", hex(connection["local_qpn"]))
    expect(re.search(r"RTS.*listener bench", text) is not None and "expected" in text and "round trip" in text, text)
    expect_equal("another number", box.ctl(gateway, "qp", "lqpn", "0xfffffe"), "no such queue pairs\n")
    load.result()
    gateway.terminate()


def schema_explains_every_number(box: Box) -> None:
    gateway, load = _under_load(box)
    load.result()
    schema = {row["name"]: row for row in box.ctl_json(gateway, "stats", "schema")["schema"]}
    for name in box.ctl_json(gateway, "stats")["stats"]:
        family = name.split("{")[0]
        base = re.sub(r"_(count|sum)$", "", family)
        row = schema.get(family) or schema.get(base)
        expect(row is not None and row["help"] != "", f"{name} has no schema")
    expect_equal("a counter of octets", [schema["causeway_roce_bytes_total"][key] for key in ("kind", "unit")], ["counter", "bytes"])
    expect_equal("a histogram of times", [schema["causeway_rpc_duration_seconds"][key] for key in ("kind", "unit")],
                 ["histogram", "seconds"])
    gateway.terminate()


def watching_prints_again(box: Box) -> None:
    gateway, load = _under_load(box, seconds=3)
    done = _ctl(box, gateway, "--json", "connections", "--watch", "0.2", "--count", "3")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    expect_equal("answers, one a line", len(answers), 3)
    rpcs = [answer["connections"][0]["rpcs"] for answer in answers]
    expect(rpcs[0] < rpcs[1] < rpcs[2], f"calls do not grow: {rpcs}")
    expect_equal("text without a terminal", _ctl(box, gateway, "status", "-w", "0.1", "--count", "2").stdout.count("Listeners"), 2)
    load.result()
    gateway.terminate()


def errors_are_json_too(box: Box) -> None:
    wrong = box.run(box.causewayctl, "--json", "conections")
    expect_equal("exit status of wrong usage", wrong.returncode, 2)
    said = json.loads(wrong.stdout)
    expect_equal("kind", said["kind"], "usage")
    expect("did you mean 'connections'" in said["error"] and "--help" in wrong.stderr, wrong.stderr)
    nobody = box.run(box.causewayctl, "--json", "--socket", box.directory / "none.sock", "status")
    expect_equal("exit status without a gateway, kind", (nobody.returncode, json.loads(nobody.stdout)["kind"]), (1, "unreachable"))
    again = box.run(box.causewayctl, "--socket", box.directory / "none.sock", "status", "--watch", "1")
    expect_equal("watching nobody ends", again.returncode, 1)


CASES = [
    ("causewayctl filters choose rows", filters_choose_rows),
    ("causewayctl qp show tells the transport state", queue_pairs_tell_their_state),
    ("causewayctl stats schema explains every number", schema_explains_every_number),
    ("causewayctl --watch prints again", watching_prints_again),
    ("causewayctl --json makes JSON of errors", errors_are_json_too),
]
