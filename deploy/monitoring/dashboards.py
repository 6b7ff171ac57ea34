#!/usr/bin/env python3
"""Writes the Grafana dashboards, grafana/*.json, from the panels below.

    dashboards.py            write the files
    dashboards.py --check    exit status 1, naming each file that is not what would be written
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from panels import SELECTED as S  # noqa: E402
from panels import Json, dashboard, heatmap, row, stat, timeseries  # noqa: E402

DIRECTORY = Path(__file__).resolve().parent / "grafana"

RATE = "$__rate_interval"
GOOD_OR_BAD = {"0": ("DOWN", "red"), "1": ("up", "green")}


def metric(name: str, labels: str = "") -> str:
    return f"causeway_{name}{{{S}{', ' + labels if labels else ''}}}"


def rate(name: str, by: str = "instance", labels: str = "") -> str:
    return f"sum by ({by}) (rate({metric(name, labels)}[{RATE}]))"


def quantile(share: float, name: str, by: str = "instance", labels: str = "") -> str:
    """Only of what was called at all: the quantile of nothing is no number."""
    called = f"{rate(name + '_count', by, labels)} > 0"
    return f"histogram_quantile({share}, {rate(name + '_bucket', by + ', le', labels)}) and on ({by}) {called}"


def overview() -> Json:
    rpc = "rpc_duration_seconds"
    return dashboard(
        "causeway-overview",
        "Causeway / Overview",
        "Is every gateway there, how much does it carry, how fast, how full is it.",
        [
            stat(
                "Gateways",
                "Gateways that answer the scrape, and those that do not.",
                "none",
                (f"up{{{S}}}", "{{instance}}"),
                width=6,
                words=GOOD_OR_BAD,
            ),
            stat(
                "Ready for clients",
                "As /readyz: listens, does not drain, has a link, and no backend is down. causewayctl status says why not.",
                "none",
                (metric("ready"), "{{instance}}"),
                width=6,
                words={"0": ("not ready", "orange"), "1": ("ready", "green")},
            ),
            stat(
                "Backends",
                "Whether a server of each backend is up; without checks, whether the last attempt to connect to it succeeded.",
                "none",
                (metric("backend_up"), "{{instance}} {{backend}}"),
                width=6,
                words=GOOD_OR_BAD,
            ),
            stat(
                "Ports",
                "Link state of each port.",
                "none",
                (metric("port_up"), "{{instance}} port {{port}}"),
                width=6,
                words=GOOD_OR_BAD,
            ),
            timeseries("Calls", "RPC calls answered per second.", "reqps", (rate(rpc + "_count"), "{{instance}}")),
            timeseries(
                "Latency",
                "From the arrival of a call to its reply being sent: median and the slowest of a hundred.",
                "s",
                (quantile(0.5, rpc), "{{instance}} p50"),
                (quantile(0.99, rpc), "{{instance}} p99"),
                log=True,
            ),
            timeseries(
                "Throughput",
                "Bytes of RoCEv2 packets and of iWARP's FPDUs per second, headers included.",
                "Bps",
                (rate("roce_bytes_total", "instance, direction"), "{{instance}} RoCE {{direction}}"),
                (rate("iwarp_bytes_total", "instance, direction"), "{{instance}} iWARP {{direction}}"),
            ),
            timeseries("Connections", "Established connections.", "none", (metric("connections"), "{{instance}}")),
            timeseries(
                "Poll cores",
                "Share of the time that each poll core finds work. Above 90 % latency rises and packets are lost next.",
                "percentunit",
                (
                    f"sum by (instance, lcore) (rate({metric('lcore_busy_seconds_total')}[{RATE}])) / "
                    f"(sum by (instance, lcore) (rate({metric('lcore_busy_seconds_total')}[{RATE}])) + "
                    f"sum by (instance, lcore) (rate({metric('lcore_idle_seconds_total')}[{RATE}])))",
                    "{{instance}} core {{lcore}}",
                ),
                maximum=1,
            ),
            timeseries(
                "Credits in use",
                "Share of the granted credits that calls occupy. Near 100 %: clients wait before they may call.",
                "percentunit",
                (f"{metric('rpcrdma_credits_in_use')} / {metric('rpcrdma_credits_granted')}", "{{instance}}"),
                maximum=1,
            ),
            timeseries(
                "Discards",
                "Received packets not acted upon, by reason. Duplicates and gaps follow loss; the others are defects or attacks.",
                "pps",
                (rate("roce_discards_total", "reason"), "{{reason}}"),
            ),
            timeseries(
                "Refused and failed connections",
                "Connection requests refused by this gateway, and connections that ended otherwise than by a goodbye.",
                "cps",
                (rate("connections_refused_total", "reason"), "refused: {{reason}}"),
                (rate("connections_closed_total", "reason", 'reason=~"failed_.*"'), "{{reason}}"),
            ),
            row("Process"),
            timeseries(
                "CPU",
                "CPU time of the process. A poll core that spins counts as a whole CPU whatever it does.",
                "percentunit",
                (f"rate(process_cpu_seconds_total{{{S}}}[{RATE}])", "{{instance}}"),
                width=8,
            ),
            timeseries(
                "Memory",
                "Resident memory. Packet memory is taken at the start, so this is flat.",
                "bytes",
                (f"process_resident_memory_bytes{{{S}}}", "{{instance}}"),
                width=8,
            ),
            timeseries(
                "File descriptors",
                "Open ones, as a share of the limit. Each client of iWARP takes one, and each connection to a TCP backend.",
                "percentunit",
                (f"process_open_fds{{{S}}} / process_max_fds{{{S}}}", "{{instance}}"),
                width=8,
                maximum=1,
            ),
            stat("Version", "What is running.", "none", (metric("build_info"), "{{gateway}}: {{version}}, {{dpdk}}"), width=8),
            stat(
                "Started",
                "Time since the process started.",
                "s",
                (f"time() - process_start_time_seconds{{{S}}}", "{{instance}}"),
                width=8,
            ),
            stat(
                "Configuration",
                "Whether the last configuration read was valid.",
                "none",
                (metric("config_last_reload_successful"), "{{instance}}"),
                width=8,
                words={"0": ("refused", "red"), "1": ("valid", "green")},
            ),
        ],
    )


def connections() -> Json:
    return dashboard(
        "causeway-connections",
        "Causeway / Connections and credits",
        "Who comes and goes, who is turned away, and what flow control does.",
        [
            stat("Established", "Connections now.", "none", (f"sum({metric('connections')})", "connections")),
            stat(
                "Being established",
                "Connection attempts under way.",
                "none",
                (f"sum({metric('connections_half_open')})", "attempts"),
            ),
            stat(
                "Remembered",
                "Ended connections whose queue pair numbers are not used again yet.",
                "none",
                (f"sum({metric('connections_timewait')})", "in time-wait"),
            ),
            stat(
                "Credits granted",
                "Calls that clients may have in flight.",
                "none",
                (f"sum({metric('rpcrdma_credits_granted')})", "granted"),
            ),
            stat(
                "Credits in use",
                "Calls received and not yet answered.",
                "none",
                (f"sum({metric('rpcrdma_credits_in_use')})", "in use"),
            ),
            stat(
                "Credit violations",
                "Calls beyond the credits granted, within the time shown.",
                "none",
                (f"sum(increase({metric('rpcrdma_credit_violations_total')}[$__range]))", "calls"),
                steps=((None, "green"), (1, "red")),
            ),
            timeseries("Connections", "Established connections.", "none", (metric("connections"), "{{instance}}")),
            timeseries(
                "Connections by wire",
                "Established connections over RoCE, and over iWARP.",
                "none",
                (f"{metric('connections')} - {metric('iwarp_connections')}", "{{instance}} RoCE"),
                (metric("iwarp_connections"), "{{instance}} iWARP"),
            ),
            timeseries(
                "Attempts",
                "Connection attempts per second, by result.",
                "cps",
                (rate("connections_total", "result"), "{{result}}"),
            ),
            timeseries(
                "Refused",
                "Connection requests that the gateway refused, by reason: access list, limit or want of resources, backend, drain. "
                "Handshake: the gateway was willing, and the client did not finish.",
                "cps",
                (rate("connections_refused_total", "reason"), "{{reason}}"),
                (rate("connections_handshake_failures_total"), "{{instance}} handshake"),
            ),
            timeseries(
                "Ended",
                "Established connections that ended, by reason.",
                "cps",
                (rate("connections_closed_total", "reason"), "{{reason}}"),
            ),
            timeseries(
                "Connections by [[client]] section",
                "Connections of each section's clients, and requests that it refused per second.",
                "none",
                (metric("client_connections"), "{{instance}} {{client}}"),
                (
                    rate("client_connections_refused_total", "instance, client, reason"),
                    "{{instance}} {{client}} refused: {{reason}}",
                ),
            ),
            timeseries(
                "Bytes in flight by [[client]] section",
                "Chunks of the calls of each section's clients.",
                "bytes",
                (metric("client_bytes_in_flight"), "{{instance}} {{client}}"),
            ),
            timeseries(
                "Calls postponed by [[client]] section",
                "Calls per second that waited for bytes_in_flight_max or the rates of their section, or for the rates of their listener.",
                "ops",
                (rate("client_calls_postponed_total", "instance, client"), "{{instance}} {{client}}"),
            ),
            timeseries(
                "How near to the limits",
                "Connections, attempts under way and calls in flight, as shares of what the configuration allows.",
                "percentunit",
                (f"{metric('connections')} / {metric('connections_max')}", "{{instance}} connections"),
                (f"{metric('connections_half_open')} / {metric('connections_half_open_max')}", "{{instance}} half open"),
                (f"{metric('rpcrdma_credits_in_use')} / {metric('rpcrdma_calls_in_flight_max')}", "{{instance}} calls"),
                maximum=1,
            ),
            timeseries(
                "Limits of listeners",
                "Connections that each listener takes, and credits of each of them, as configured.",
                "none",
                (metric("listener_connections_max"), "{{instance}} {{listener}} connections"),
                (metric("listener_credits"), "{{instance}} {{listener}} credits"),
            ),
            row("Credits"),
            timeseries(
                "Credits",
                "Granted to clients, and used by calls that are not answered yet.",
                "none",
                (metric("rpcrdma_credits_granted"), "{{instance}} granted"),
                (metric("rpcrdma_credits_in_use"), "{{instance}} in use"),
            ),
            timeseries(
                "Credits for callbacks",
                "What clients grant for calls to them (NFSv4.1 callbacks, RFC 8167), and calls that they have not answered.",
                "none",
                (metric("rpcrdma_reverse_credits_granted"), "{{instance}} granted"),
                (metric("rpcrdma_reverse_credits_in_use"), "{{instance}} in use"),
            ),
            timeseries(
                "Credit trouble",
                "Calls beyond the grant (violations), callbacks that waited for a credit (stalls), grants lowered for want of call slots.",
                "ops",
                (rate("rpcrdma_credit_violations_total"), "{{instance}} violations"),
                (rate("rpcrdma_credit_stalls_total"), "{{instance}} stalls"),
                (rate("rpcrdma_grants_lowered_total"), "{{instance}} grants lowered"),
            ),
            timeseries(
                "Calls waiting for RDMA Reads",
                "Calls whose data is not fetched yet because too many RDMA Reads are under way.",
                "ops",
                (rate("rpcrdma_read_stalls_total"), "{{instance}}"),
            ),
            row("Client budgets: [[client]] sections"),
            timeseries(
                "Connections by section",
                "Connections of each section's clients together, and how many its connections_max allows.",
                "none",
                (metric("client_connections"), "{{instance}} {{client}}"),
                (metric("client_connections_max"), "{{instance}} {{client}} at most"),
            ),
            timeseries(
                "Refused by section",
                "Connection requests refused per second. limit: the section is full. denied: allow = false.",
                "cps",
                (rate("client_connections_refused_total", "instance, client, reason"), "{{instance}} {{client}} {{reason}}"),
            ),
            timeseries(
                "Credits by section",
                "Granted to the clients of each section, and used by calls that are not answered yet.",
                "none",
                (metric("client_credits_granted"), "{{instance}} {{client}} granted"),
                (metric("client_credits_in_use"), "{{instance}} {{client}} in use"),
            ),
            timeseries(
                "Chunks in flight by section",
                "Bytes of the chunks of calls in flight, and what bytes_in_flight_max allows of them.",
                "bytes",
                (metric("client_bytes_in_flight"), "{{instance}} {{client}}"),
                (metric("client_bytes_in_flight_max"), "{{instance}} {{client}} at most"),
            ),
            timeseries(
                "Calls that waited",
                "Calls that waited for the bytes_in_flight_max of their section, or for calls_per_second or bytes_per_second "
                "of the section or the listener.",
                "ops",
                (rate("client_calls_postponed_total", "instance, client"), "{{instance}} {{client}}"),
            ),
            timeseries(
                "Calls by listener",
                "Calls that came in by each listener per second, and those that waited for its rates or for what their section may have.",
                "reqps",
                (rate("listener_calls_total", "instance, listener"), "{{instance}} {{listener}}"),
                (metric("listener_calls_per_second_max"), "{{instance}} {{listener}} at most"),
                (rate("listener_calls_postponed_total", "instance, listener"), "{{instance}} {{listener}} waited"),
            ),
            timeseries(
                "Bytes by listener",
                "Bytes of calls that came in by each listener, and of the replies to them, beside what it lets through.",
                "Bps",
                (rate("listener_bytes_total", "instance, listener"), "{{instance}} {{listener}}"),
                (metric("listener_bytes_per_second_max"), "{{instance}} {{listener}} at most"),
            ),
            timeseries(
                "Calls by section",
                "Calls of each section's clients per second. Which of them it is says causewayctl top section NAME.",
                "reqps",
                (rate("client_calls_total", "instance, client"), "{{instance}} {{client}}"),
                (metric("client_calls_per_second_max"), "{{instance}} {{client}} at most"),
            ),
            timeseries(
                "Bytes by section",
                "Bytes of calls from (rx) and of replies to (tx) each section's clients, chunks included.",
                "Bps",
                (rate("client_bytes_total", "instance, client, direction"), "{{instance}} {{client}} {{direction}}"),
                (metric("client_bytes_per_second_max"), "{{instance}} {{client}} at most"),
            ),
            timeseries(
                "Errors by section",
                "Replies that refuse a call, and calls that were lost with their connection.",
                "ops",
                (rate("client_errors_total", "instance, client"), "{{instance}} {{client}}"),
            ),
            row("Connection management"),
            timeseries(
                "Messages",
                "Connection management messages by type and direction.",
                "pps",
                (rate("cm_messages_total", "direction, type"), "{{direction}} {{type}}"),
            ),
            timeseries(
                "Rejects",
                "REJ messages by reason, the ten most frequent: sent (tx) and received (rx).",
                "pps",
                (f"topk(10, {rate('cm_rejects_total', 'direction, reason')})", "{{direction}} {{reason}}"),
            ),
            timeseries(
                "Management datagrams dropped",
                "By reason. The rate reasons are limits of the configuration.",
                "pps",
                (rate("cm_discards_total", "reason"), "{{reason}}"),
            ),
            timeseries(
                "Repetitions",
                "Messages sent again for want of an answer, and messages recognised as repeated: loss on the way.",
                "pps",
                (rate("cm_retransmissions_total"), "{{instance}} sent again"),
                (rate("cm_duplicates_total"), "{{instance}} received again"),
            ),
        ],
    )


def chunks() -> Json:
    rpc, stage = "rpc_duration_seconds", "rpc_stage_duration_seconds"
    return dashboard(
        "causeway-chunks",
        "Causeway / Chunks and latency",
        "What clients call, how the data moves, and where the time goes.",
        [
            timeseries(
                "Calls by procedure",
                "RPC calls answered per second.",
                "reqps",
                (rate(rpc + "_count", "program, procedure") + " > 0", "{{program}} {{procedure}}"),
            ),
            timeseries(
                "Latency by procedure",
                "The slowest of a hundred calls, from arrival to the reply being sent.",
                "s",
                (quantile(0.99, rpc, "program, procedure"), "{{program}} {{procedure}}"),
                log=True,
            ),
            timeseries(
                "NFSv4 operations",
                "Operations inside COMPOUNDs per second, the 12 most frequent. Calls and latency count a COMPOUND under the one that "
                "it is about.",
                "ops",
                (f"topk(12, {rate('nfs4_operations_total', 'operation')})", "{{operation}}"),
            ),
            heatmap("Latency, all calls", "How many calls took how long, over time.", "s", rate(rpc + "_bucket", "le")),
            timeseries(
                "Latency, all calls",
                "Percentiles from the arrival of a call to its reply being sent.",
                "s",
                *((quantile(share, rpc), f"{{{{instance}}}} p{share * 100:g}") for share in (0.5, 0.9, 0.99, 0.999)),
                log=True,
            ),
            row("Where the time goes"),
            timeseries(
                "Median by stage",
                "rx: from a call's first packet until the gateway took it up, of the calls for which that took longer than a "
                "burst. rdma_read: data of the call fetched. backend: waiting for its answer. rdma_write: reply with data by chunk until "
                "acknowledged. reply_ack: other replies until acknowledged, every 16th.",
                "s",
                (quantile(0.5, stage, "stage"), "{{stage}}"),
                log=True,
            ),
            timeseries(
                "Slowest of a hundred by stage",
                "The same stages, 99th percentile. Of rx compare how many calls had it.",
                "s",
                (quantile(0.99, stage, "stage"), "{{stage}}"),
                log=True,
            ),
            heatmap("Backend", "How long the backends took, over time.", "s", rate(stage + "_bucket", "le", 'stage="backend"')),
            timeseries(
                "Time spent per second",
                "Seconds that calls spent in each stage per second: how many calls are in each stage at a time. "
                "Much rx: a limit of the gateway keeps them waiting. reply_ack is a sample of one in 16.",
                "none",
                (rate(stage + "_sum", "stage"), "{{stage}}"),
                stacked=True,
            ),
            row("How the data moves"),
            timeseries(
                "Bytes by chunk list",
                "read: fetched from clients by RDMA Read (NFS WRITE). write: placed by RDMA Write (NFS READ). reply: long replies.",
                "Bps",
                (rate("rpcrdma_chunk_bytes_total", "list"), "{{list}}"),
            ),
            timeseries("Chunks", "Chunks used per second.", "ops", (rate("rpcrdma_chunks_total", "list"), "{{list}}")),
            timeseries(
                "Segments per chunk",
                "How finely clients split their memory. Many small segments cost packets and time.",
                "none",
                (
                    f"{rate('rpcrdma_chunk_segments_total', 'list')} / {rate('rpcrdma_chunks_total', 'list')} and on (list) "
                    f"{rate('rpcrdma_chunks_total', 'list')} > 0",
                    "{{list}}",
                ),
            ),
            timeseries(
                "Bytes per chunk",
                "How much one chunk moves.",
                "bytes",
                (
                    f"{rate('rpcrdma_chunk_bytes_total', 'list')} / {rate('rpcrdma_chunks_total', 'list')} and on (list) "
                    f"{rate('rpcrdma_chunks_total', 'list')} > 0",
                    "{{list}}",
                ),
            ),
            timeseries(
                "Messages",
                "RPC-over-RDMA messages by procedure. rdma_nomsg: the call or reply itself goes by chunk.",
                "ops",
                (rate("rpcrdma_messages_total", "direction, procedure"), "{{direction}} {{procedure}}"),
            ),
            timeseries(
                "Refused messages",
                "Messages that break the protocol, by what is wrong.",
                "ops",
                (rate("rpcrdma_malformed_headers_total", "reason"), "{{reason}}"),
                (rate("rpcrdma_errors_total", "direction, code"), "RDMA_ERROR {{direction}} {{code}}"),
                (rate("rpcrdma_short_messages_total"), "{{instance}} short"),
                (rate("rpcrdma_xid_mismatches_total"), "{{instance}} xid mismatch"),
                (rate("rpcrdma_ddp_violations_total"), "{{instance}} ddp"),
            ),
            timeseries(
                "Odd answers",
                "Replies that nobody waits for, answers that came too late, calls that were not answered in time.",
                "ops",
                (rate("rpcrdma_unknown_xids_total"), "{{instance}} unknown xid"),
                (rate("rpcrdma_late_replies_total"), "{{instance}} late"),
                (rate("rpcrdma_call_timeouts_total"), "{{instance}} timed out"),
                (rate("rpcrdma_duplicate_xids_total"), "{{instance}} xid in use"),
            ),
            timeseries(
                "Work saved and added",
                "Replies that invalidate the client's memory handle for it, and small copies made to keep messages in few pieces.",
                "ops",
                (rate("rpcrdma_remote_invalidations_total"), "{{instance}} invalidations"),
                (rate("rpcrdma_pullups_total"), "{{instance}} pull-ups"),
            ),
        ],
    )


def transport() -> Json:
    ratio = f"{rate('roce_retransmitted_packets_total')} / {rate('roce_packets_total', labels=_TX)}"
    return dashboard(
        "causeway-transport",
        "Causeway / Transport health",
        "Does the network deliver, and does the machine keep up.",
        [
            timeseries(
                "Packets",
                "RoCEv2 packets per second; received ones before any is discarded.",
                "pps",
                (rate("roce_packets_total", "instance, port, direction"), "{{instance}} port {{port}} {{direction}}"),
            ),
            timeseries(
                "Bytes",
                "Bytes of RoCEv2 packets per second, Ethernet header to iCRC.",
                "Bps",
                (rate("roce_bytes_total", "instance, port, direction"), "{{instance}} port {{port}} {{direction}}"),
            ),
            timeseries(
                "Discards",
                "Received packets not acted upon, by reason. duplicate, out_of_sequence and psn_stale follow loss; "
                "icrc is damage; unknown_qp are strangers; path_mismatch is a forger or a moved client.",
                "pps",
                (rate("roce_discards_total", "reason"), "{{reason}}"),
            ),
            timeseries(
                "Packets sent again",
                "As a share of those sent; without tail probes, which ask a silent peer.",
                "percentunit",
                (ratio, "{{instance}}"),
            ),
            row("Loss and recovery"),
            timeseries(
                "Loss, seen here",
                "Requests ahead of what is expected, requests received again, READ responses found missing.",
                "pps",
                (rate("roce_out_of_sequence_total"), "{{instance}} out of sequence"),
                (rate("roce_duplicate_requests_total"), "{{instance}} duplicates"),
                (rate("roce_implied_naks_total"), "{{instance}} implied NAKs"),
            ),
            timeseries(
                "ACK timeouts",
                "Times that nothing came back for a whole timeout, and early repetitions before it.",
                "ops",
                (rate("roce_ack_timeouts_total"), "{{instance}} timeouts"),
                (rate("roce_tail_probes_total"), "{{instance}} probes"),
            ),
            timeseries(
                "NAKs",
                "Negative acknowledgements by code. psn_sequence is loss; remote_access and invalid_request are defects of one side.",
                "pps",
                (rate("roce_naks_total", "direction, code"), "{{direction}} {{code}}"),
            ),
            timeseries(
                "Receiver not ready",
                "Messages that met no posted receive buffer: ours (tx) or the client's (rx).",
                "pps",
                (rate("roce_rnr_naks_total", "instance, direction"), "{{instance}} {{direction}}"),
            ),
            timeseries(
                "Connections given up",
                "After the last retry, by kind: no progress, no receive buffer, idle and silent.",
                "cps",
                (rate("roce_retries_exhausted_total", "instance, kind"), "{{instance}} {{kind}}"),
            ),
            timeseries(
                "Queue pairs",
                "Created, destroyed, and gone to Error for any reason but our own close.",
                "cps",
                (rate("roce_queue_pairs_created_total"), "{{instance}} created"),
                (rate("roce_queue_pairs_destroyed_total"), "{{instance}} destroyed"),
                (rate("roce_queue_pairs_failed_total"), "{{instance}} failed"),
            ),
            row("Congestion"),
            timeseries(
                "Congestion marks",
                "Packets that arrived marked Congestion Experienced, and congestion notifications both ways.",
                "pps",
                (rate("roce_ecn_marked_packets_total"), "{{instance}} marked"),
                (rate("roce_cnps_total", "instance, direction"), "{{instance}} CNP {{direction}}"),
            ),
            timeseries(
                "Rates lowered",
                "Queue pairs whose rate is limited now, cuts per second, and turns that data waited for its rate or the send window.",
                "none",
                (metric("roce_rate_limited_queue_pairs"), "{{instance}} limited queue pairs"),
                (rate("roce_rate_cuts_total"), "{{instance}} cuts/s"),
                (rate("roce_paced_turns_total"), "{{instance}} paced/s"),
                (rate("roce_window_stalls_total"), "{{instance}} window stalls/s"),
            ),
            row("iWARP"),
            timeseries(
                "FPDUs",
                "The pieces that iWARP cuts its messages into, per second.",
                "pps",
                (rate("iwarp_fpdus_total", "instance, direction"), "{{instance}} {{direction}}"),
            ),
            timeseries(
                "Bytes of FPDUs",
                "Bytes per second, headers and CRCs included.",
                "Bps",
                (rate("iwarp_bytes_total", "instance, direction"), "{{instance}} {{direction}}"),
            ),
            timeseries(
                "iWARP connections that ended",
                "By cause. closed and peer_closed are in order. tcp_timeout: the client is gone. terminated: the client complains of "
                "us. violation: we complain of the client.",
                "cps",
                (rate("iwarp_streams_ended_total", "cause"), "{{cause}}"),
            ),
            timeseries(
                "Terminates",
                "The last words of connections, by what they say: the ten most frequent, sent (tx) and received (rx).",
                "ops",
                (f"topk(10, {rate('iwarp_terminates_total', 'direction, cause')})", "{{direction}} {{cause}}"),
            ),
            timeseries(
                "TCP connections that were not set up",
                "By reason, and of bad_setup what was wrong with the MPA frame. The rate and half_open reasons are limits of the "
                "configuration.",
                "cps",
                (rate("iwarp_setup_failures_total", "reason"), "{{reason}}"),
                (rate("iwarp_bad_setup_total", "reason"), "bad_setup: {{reason}}"),
            ),
            timeseries(
                "Half-open",
                "Connection attempts under way, those of RoCE included, and how many there may be.",
                "none",
                (metric("connections_half_open"), "{{instance}}"),
                (metric("connections_half_open_max"), "{{instance}} at most"),
            ),
            timeseries(
                "The kernel's TCP",
                "Segments sent again: loss on the way. Writes that found a full send buffer: the client or its path is slower than we are.",
                "ops",
                (rate("iwarp_tcp_retransmits_total"), "{{instance}} sent again"),
                (rate("iwarp_tcp_blocked_writes_total"), "{{instance}} blocked writes"),
            ),
            timeseries(
                "iWARP trouble",
                "CRC errors, each of which ends a connection. Connections not accepted for want of descriptors or memory; listeners without "
                "their address; FPDUs that waited for packet buffers, or for others to end.",
                "ops",
                (rate("iwarp_crc_errors_total"), "{{instance}} CRC errors"),
                (rate("iwarp_tcp_accept_failures_total"), "{{instance}} not accepted"),
                (rate("iwarp_tcp_listen_failures_total"), "{{instance}} not listened"),
                (rate("iwarp_out_of_buffers_total"), "{{instance}} no buffer"),
                (rate("iwarp_input_waits_total"), "{{instance}} waited for others"),
            ),
            row("Machine"),
            stat(
                "Ports",
                "The device of each port, and how packets reach their core.",
                "none",
                (metric("port_info"), "{{instance}} port {{port}}: {{device}}, {{driver}}, {{mac}}, steering {{steering}}"),
                width=24,
            ),
            timeseries(
                "Poll cores",
                "Share of the time that each poll core finds work.",
                "percentunit",
                (
                    f"{rate('lcore_busy_seconds_total', 'instance, lcore')} / ({rate('lcore_busy_seconds_total', 'instance, lcore')} + "
                    f"{rate('lcore_idle_seconds_total', 'instance, lcore')})",
                    "{{instance}} core {{lcore}}",
                ),
                maximum=1,
            ),
            timeseries(
                "Loop turns",
                "Turns of the poll loop that found work or none, and sleeps.",
                "ops",
                (rate("lcore_polls_total", "instance, lcore, result"), "{{instance}} core {{lcore}} {{result}}"),
                (rate("lcore_sleeps_total", "instance, lcore"), "{{instance}} core {{lcore}} sleeps"),
            ),
            timeseries(
                "Free packet buffers",
                "As a share of the pool. Below 10 %, bursts are lost.",
                "percentunit",
                (f"{metric('mempool_available_objects')} / {metric('mempool_objects')}", "{{instance}} {{pool}}"),
                maximum=1,
            ),
            timeseries(
                "Frames lost in the machine",
                "Received ones without descriptor (missed), without buffer, broken; sent ones without room; those for the kernel or another core that was behind; allocations refused by a pool.",
                "pps",
                (rate("port_rx_missed_total", "instance, port"), "{{instance}} port {{port}} missed"),
                (rate("port_rx_no_mbuf_total", "instance, port"), "{{instance}} port {{port}} no buffer"),
                (rate("port_rx_errors_total", "instance, port"), "{{instance}} port {{port}} broken"),
                (rate("port_tx_dropped_total", "instance, port"), "{{instance}} port {{port}} transmit"),
                (rate("port_exception_dropped_total", "instance, port, direction"), "{{instance}} port {{port}} {{direction}}"),
                (rate("port_links_refused_total", "instance, port"), "{{instance}} port {{port}} memif ends refused"),
                (rate("lcore_frames_not_handed_total", "instance, lcore"), "{{instance}} between cores, from {{lcore}}"),
                (rate("mempool_exhausted_total", "instance, pool"), "{{instance}} pool {{pool}}"),
            ),
            timeseries(
                "Other frames",
                "What is not RoCE: address resolution, ping, and frames of no protocol of ours.",
                "pps",
                (rate("port_arp_packets_total", "direction"), "ARP {{direction}}"),
                (rate("port_nd_packets_total", "direction"), "ND {{direction}}"),
                (rate("port_icmp_packets_total", "direction"), "ICMP {{direction}}"),
                (rate("port_other_packets_total"), "{{instance}} other"),
            ),
            timeseries(
                "Late counters",
                "Scrapes for which a core did not hand out its counters in time: a core that is stuck.",
                "ops",
                (rate("snapshot_timeouts_total", "instance, lcore"), "{{instance}} core {{lcore}}"),
            ),
        ],
    )


_TX = 'direction="tx"'


def backend() -> Json:
    one = 'backend=~"$backend"'
    stage, only = "rpc_stage_duration_seconds", 'stage="backend"'
    return dashboard(
        "causeway-backend",
        "Causeway / Backend",
        "Does the service behind the gateway answer, and how fast.",
        [
            stat(
                "State",
                "Whether a server of the backend is up; without checks, whether the last attempt to connect succeeded.",
                "none",
                (metric("backend_up", one), "{{instance}} {{backend}}"),
                width=8,
                words=GOOD_OR_BAD,
            ),
            stat(
                "Connections",
                "Open connections to the backend; one per client connection.",
                "none",
                (metric("backend_connections", one), "{{instance}} {{backend}}"),
                width=8,
            ),
            stat(
                "Calls in flight",
                "Calls that it has not answered yet.",
                "none",
                (metric("backend_inflight_calls", one), "{{instance}} {{backend}}"),
                width=8,
            ),
            timeseries(
                "Calls",
                "Calls handed to the backend per second, and its replies to them.",
                "reqps",
                (rate("backend_calls_total", "instance, backend", one), "{{instance}} {{backend}} calls"),
                (rate("backend_replies_total", "instance, backend", one), "{{instance}} {{backend}} replies"),
            ),
            timeseries(
                "Calls in flight",
                "Calls that the backend has not answered yet. A line that rises and stays: it hangs.",
                "none",
                (metric("backend_inflight_calls", one), "{{instance}} {{backend}}"),
            ),
            timeseries(
                "Bytes",
                "Bytes to (tx) and from (rx) the backend. Built-in programs have no connection, and count none.",
                "Bps",
                (rate("backend_bytes_total", "instance, backend, direction", one), "{{instance}} {{backend}} {{direction}}"),
            ),
            timeseries(
                "Mean time of a reply",
                "How long the replies of each TCP backend took. Built-in programs count none.",
                "s",
                (
                    f"{rate('backend_call_seconds_total', 'instance, backend', one)} / "
                    f"{rate('backend_replies_total', 'instance, backend', one)} and on (instance, backend) "
                    f"{rate('backend_replies_total', 'instance, backend', one)} > 0",
                    "{{instance}} {{backend}}",
                ),
                log=True,
            ),
            timeseries(
                "Replies that refuse the call",
                "Denied, or accepted and not carried out: RFC 5531, section 9. NFS tells its own errors inside replies that succeed.",
                "ops",
                (rate("backend_error_replies_total", "instance, backend", one), "{{instance}} {{backend}}"),
            ),
            timeseries(
                "Latency, all backends",
                "Time that calls waited for a backend: percentiles. The stage is not counted per backend.",
                "s",
                (quantile(0.5, stage, labels=only), "{{instance}} p50"),
                (quantile(0.99, stage, labels=only), "{{instance}} p99"),
                log=True,
            ),
            heatmap(
                "Latency, all backends",
                "How long calls waited for a backend, over time.",
                "s",
                rate(stage + "_bucket", "le", only),
            ),
            timeseries(
                "Connections",
                "Connections made, attempts that failed, and connections that the backend closed while their client was there.",
                "cps",
                (rate("backend_connects_total", "instance, backend", one), "{{instance}} {{backend}} made"),
                (rate("backend_connect_failures_total", "instance, backend", one), "{{instance}} {{backend}} failed"),
                (rate("backend_reconnects_total", "instance, backend", one), "{{instance}} {{backend}} lost"),
            ),
            row("Servers of TCP backends"),
            stat(
                "Servers",
                "Whether each server passes its checks.",
                "none",
                (metric("backend_server_up", one), "{{instance}} {{backend}} {{server}}"),
                width=8,
                words=GOOD_OR_BAD,
            ),
            timeseries(
                "Connections by server",
                "Where clients' connections lead.",
                "none",
                (metric("backend_server_connections", one), "{{instance}} {{backend}} {{server}}"),
                width=8,
            ),
            timeseries(
                "Duration of checks",
                "How long the last check of each server took.",
                "s",
                (metric("backend_server_check_duration_seconds", one), "{{instance}} {{backend}} {{server}}"),
                width=8,
            ),
            timeseries(
                "Checks",
                "Checks per second, and those that failed.",
                "ops",
                (
                    rate("backend_server_checks_total", "instance, backend, server", one),
                    "{{instance}} {{backend}} {{server}} checks",
                ),
                (
                    rate("backend_server_check_failures_total", "instance, backend, server", one),
                    "{{instance}} {{backend}} {{server}} failed",
                ),
            ),
            timeseries(
                "Calls in flight by server",
                "Calls that each server has not answered yet. One line that stays high: that server hangs.",
                "none",
                (metric("backend_server_inflight_calls", one), "{{instance}} {{backend}} {{server}}"),
            ),
            timeseries(
                "Calls by route",
                "Calls by listener, program where it has a [[route]], and backend. none: answered with PROG_UNAVAIL.",
                "reqps",
                (
                    rate("route_calls_total", "instance, listener, program, backend"),
                    "{{instance}} {{listener}} {{program}} to {{backend}}",
                ),
            ),
            timeseries(
                "Calls that found no backend",
                "Of programs without a route at listeners without a backend (PROG_UNAVAIL), and attempts to reach a "
                "route's backend that failed when a call wanted it.",
                "ops",
                (rate("calls_unrouted_total"), "{{instance}} unrouted"),
                (rate("route_connect_failures_total"), "{{instance}} not reached"),
            ),
            timeseries(
                "Calls given up",
                "Connections given up because the backend did not answer in time.",
                "ops",
                (rate("backend_call_timeouts_total", "instance, backend", one), "{{instance}} {{backend}}"),
            ),
            timeseries(
                "Odd messages",
                "Replies that nobody waits for, and messages too short to be RPC.",
                "ops",
                (rate("backend_unmatched_replies_total"), "{{instance}} unmatched"),
                (rate("backend_malformed_messages_total"), "{{instance}} malformed"),
            ),
            row("Calls that outlive their client's connection"),
            timeseries(
                "Orphaned calls",
                "Calls that were at the backend when their client's connection ended, and those of them that it did not answer in time.",
                "ops",
                (rate("backend_orphaned_calls_total"), "{{instance}} orphaned"),
                (rate("backend_orphaned_calls_expired_total"), "{{instance}} never answered"),
                width=8,
            ),
            timeseries(
                "Connections kept for them",
                "Backend connections that stay until their orphaned calls are answered, 10 seconds at most.",
                "none",
                (metric("backend_orphans"), "{{instance}}"),
                width=8,
            ),
            timeseries(
                "Clients that wait for them",
                "Connections whose calls waited for those of the same client's connections before.",
                "cps",
                (rate("connections_held_total"), "{{instance}}"),
                width=8,
            ),
            timeseries(
                "Source ports missed",
                "Connections not made from the port of the client's connection before: a repeated call may be executed twice.",
                "ops",
                (rate("backend_source_ports_missed_total"), "{{instance}}"),
                width=8,
            ),
            row("Replies that wait for memory"),
            timeseries(
                "Replies waiting",
                "Replies of backends that wait for buffers (pool replies) before they are read.",
                "none",
                (metric("backend_replies_waiting"), "{{instance}}"),
                width=8,
            ),
            timeseries(
                "Replies that waited",
                "Replies that had to wait for buffers.",
                "ops",
                (rate("backend_replies_waited_total"), "{{instance}}"),
                width=8,
            ),
            timeseries(
                "Replies that stalled",
                "Replies that a backend began and did not go on with: the connection to it was closed.",
                "ops",
                (rate("backend_replies_stalled_total"), "{{instance}}"),
                width=8,
            ),
            row("Callbacks: calls of the backend to clients (NFSv4.1, RFC 8167)"),
            timeseries(
                "Callbacks",
                "Calls taken from backends, and clients' replies handed back.",
                "ops",
                (rate("backend_reverse_calls_total"), "{{instance}} calls"),
                (rate("backend_reverse_replies_total"), "{{instance}} replies"),
            ),
            timeseries(
                "Callbacks that did not get there",
                "By reason. not_enabled: the client has not said that it takes calls.",
                "ops",
                (rate("backend_reverse_calls_dropped_total", "reason"), "{{reason}}"),
            ),
        ],
        variables=[
            ("backend", "Backend", 'label_values(causeway_backend_calls_total{job=~"$job", instance=~"$instance"}, backend)')
        ],
    )


def files() -> dict[Path, str]:
    boards = (overview(), connections(), chunks(), transport(), backend())
    return {DIRECTORY / f"{board['uid']}.json": json.dumps(board, indent=2, ensure_ascii=False) + "\n" for board in boards}


def main() -> int:
    wanted = files()
    if sys.argv[1:] == ["--check"]:
        stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        stale += [path for path in DIRECTORY.glob("*.json") if path not in wanted]
        for path in stale:
            print(f"{path}: not what deploy/monitoring/dashboards.py writes; run it")
        return 1 if stale else 0
    if sys.argv[1:]:
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    DIRECTORY.mkdir(exist_ok=True)
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
