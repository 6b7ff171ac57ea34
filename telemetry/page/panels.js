// What the charts show: one definition each, in terms of the columns of /api/history (telemetry/history_columns.cc).
import {Chart} from '/page/chart.js';
import {SHORTEST_NS} from '/page/format.js';
import {HeatMap} from '/page/heatmap.js';

const BITS = 8;
const PROGRAMS = [
  ['nfs3', 'NFSv3', 's1'],
  ['nfs4', 'NFSv4', 's2'],
  ['bench', 'bench', 's3'],
  ['other', 'other', 's8'],
];
const COLORS = ['s1', 's2', 's3', 's4', 's5', 's6', 's7', 's8'];

function anything(values) {
  return values.some((value) => value > 0);
}

// Programs that were called in the window; with none, all calls together as one flat line.
function programs(view) {
  const called = PROGRAMS.map(([program, label, color]) => ({
    label,
    color,
    values: view.sumRates(view.names(`calls.${program}/`)),
  })).filter((each) => anything(each.values));
  return called.length
    ? called.map((each, i) => ({...each, fill: i === 0}))
    : [{label: 'all programs', color: 's1', values: view.sumRates(view.names('calls.')), fill: true}];
}

// A line of their own, where there are calls to backends too.
function builtins(view) {
  const values = view.builtinPercentile(0.99);
  return values.some((ns) => ns !== null) ? [{label: 'built in, p99', color: 's8', values, dash: [4, 3]}] : [];
}

const LOST = ['port_rx_missed', 'port_rx_no_mbuf', 'port_rx_errors', 'port_tx_dropped', 'frames_not_handed'];
const REASONS_SHOWN = 4;

// The reasons that count most in the window, in order of name so that colours stay; the others together.
function discards(view) {
  const seen = view
    .names('discards.')
    .map((name) => ({name, packets: view.grown(name)}))
    .filter((each) => each.packets > 0)
    .sort((a, b) => b.packets - a.packets)
    .map((each) => each.name);
  const shown = seen.slice(0, REASONS_SHOWN).sort();
  const series = shown.map((name, i) => ({
    label: name.slice(9).replaceAll('_', ' '),
    color: ['s5', 's4', 's2', 's7'][i],
    values: view.rate(name),
    fill: shown.length === 1,
  }));
  if (seen.length !== shown.length || seen.length === 0) {
    series.push({
      label: seen.length ? 'other reasons' : 'RoCE discards',
      color: 's8',
      values: view.sumRates(seen.slice(REASONS_SHOWN)),
    });
  }
  return [...series, {label: 'lost at a port', color: 's3', values: view.sumRates(LOST)}];
}

export function busyShare(view, index) {
  const busy = view.gauge(`lcore_busy_ns.${index}`);
  const idle = view.gauge(`lcore_idle_ns.${index}`);
  return busy.map((ns, i) => (ns === null || ns + idle[i] === 0 ? null : ns / (ns + idle[i])));
}

// null in a second without any: nothing was timed.
function timed(view, name, calls) {
  const counts = view.gauge(calls);
  return view.gauge(name).map((ns, i) => (counts[i] > 0 ? Math.max(ns, SHORTEST_NS) : null));
}

function stage(view, name, label, color) {
  return {label, color, values: timed(view, `stage_p50_ns.${name}`, `stage_calls.${name}`)};
}

// One line for each [[client]] section.
function bySection(clients, valuesOf) {
  return clients.map((client, i) => ({
    label: client.name,
    color: COLORS[i % COLORS.length],
    values: valuesOf(client.name),
    fill: clients.length === 1,
  }));
}

const DEFINITIONS = {
  traffic: [
    {id: 'rpcs', title: 'RPC rate', note: 'answered, by program', kind: 'RPC/s', max: 10, series: programs},
    {
      id: 'bytes',
      title: 'RoCE bytes',
      note: 'all packets, Ethernet header to iCRC',
      kind: 'bits',
      max: 1e4,
      series: (view) => [
        {label: 'in', color: 's1', values: view.rate('roce_bytes_rx', BITS), fill: true},
        {label: 'out', color: 's3', values: view.rate('roce_bytes_tx', BITS)},
      ],
    },
    {
      id: 'chunks',
      title: 'Chunk traffic',
      note: 'RDMA Read and Write, by list',
      kind: 'bits',
      max: 1e4,
      series: (view) => [
        {label: 'read list', color: 's1', values: view.rate('chunk_bytes.read', BITS)},
        {label: 'write list', color: 's3', values: view.rate('chunk_bytes.write', BITS)},
        {label: 'reply chunk', color: 's4', values: view.rate('chunk_bytes.reply', BITS)},
      ],
    },
    {
      id: 'credits',
      title: 'Credits',
      note: 'all connections together',
      kind: 'count',
      max: 8,
      series: (view) => [
        {label: 'granted', color: 's8', values: view.gauge('credits_granted'), dash: [5, 3]},
        {label: 'in use', color: 's1', values: view.gauge('credits_in_use'), fill: true},
        {label: 'connections', color: 's3', values: view.gauge('connections')},
      ],
    },
  ],
  latency: [
    {
      id: 'heat',
      title: 'RPC latency',
      note: 'calls to backends by duration, second by second; built-in programs where nothing else is called',
      height: 300,
      wide: true,
      empty: 'No calls in this window.',
      heat: true,
    },
    {
      id: 'percentiles',
      title: 'RPC latency percentiles',
      note: 'calls to backends',
      kind: 'time',
      log: [1e4, 1e6],
      empty: 'No calls in this window.',
      series: (view) => [
        {label: 'p50', color: 's2', values: view.percentile(0.5)},
        {label: 'p90', color: 's1', values: view.percentile(0.9)},
        {label: 'p99', color: 's3', values: view.percentile(0.99)},
        {label: 'p99.9', color: 's5', values: view.percentile(0.999)},
        ...builtins(view),
      ],
    },
    {
      id: 'stages',
      title: 'Stage latency',
      note: 'median of each stage',
      kind: 'time',
      log: [1e4, 1e6],
      empty: 'No calls in this window.',
      series: (view) => [
        stage(view, 'rx', 'rx', 's6'),
        stage(view, 'rdma_read', 'RDMA Read', 's1'),
        stage(view, 'backend', 'backend', 's2'),
        stage(view, 'rdma_write', 'RDMA Write', 's3'),
        stage(view, 'reply_ack', 'reply to ACK', 's4'),
      ],
    },
  ],
  transport: [
    {
      id: 'repeats',
      title: 'Loss and repetition',
      note: 'events per second',
      kind: '/s',
      max: 5,
      series: (view) => [
        {label: 'retransmitted', color: 's5', values: view.rate('retransmitted_packets')},
        {label: 'ACK timeouts', color: 's3', values: view.rate('ack_timeouts')},
        {label: 'out of sequence', color: 's4', values: view.rate('out_of_sequence')},
        {label: 'duplicates', color: 's8', values: view.rate('duplicate_requests')},
      ],
    },
    {
      id: 'naks',
      title: 'NAKs',
      note: 'events per second',
      kind: '/s',
      max: 5,
      series: (view) => [
        {label: 'NAK sent', color: 's1', values: view.rate('naks_tx')},
        {label: 'NAK received', color: 's3', values: view.rate('naks_rx')},
        {label: 'RNR sent', color: 's2', values: view.rate('rnr_naks_tx')},
        {label: 'RNR received', color: 's5', values: view.rate('rnr_naks_rx')},
      ],
    },
    {
      id: 'congestion',
      title: 'Congestion',
      note: 'events per second',
      kind: '/s',
      max: 5,
      series: (view) => [
        {label: 'CNP sent', color: 's1', values: view.rate('cnps_tx')},
        {label: 'CNP received', color: 's3', values: view.rate('cnps_rx')},
        {label: 'ECN marked', color: 's4', values: view.rate('ecn_marked_packets')},
      ],
    },
    {
      id: 'discards',
      title: 'Discarded packets',
      note: 'per second, the commonest reasons',
      kind: '/s',
      max: 5,
      series: discards,
    },
  ],
  resources: [
    {
      id: 'busy',
      title: 'Poll-core load',
      note: 'share of time in turns that found work',
      kind: 'percent',
      max: 1,
      series: (view, {cores}) =>
        cores.map((core, i) => ({
          label: `CPU ${core.lcore}`,
          color: COLORS[i % COLORS.length],
          values: busyShare(view, i),
          fill: cores.length === 1,
        })),
    },
    {
      id: 'backends',
      title: 'Calls at backends',
      note: 'not answered yet',
      kind: 'count',
      max: 5,
      series: (view, {backends}) =>
        backends.map((backend, i) => ({
          label: backend.name,
          color: COLORS[i % COLORS.length],
          values: view.gauge(`backend_in_flight.${backend.name}`),
        })),
    },
  ],
  clients: [
    {
      id: 'client-connections',
      title: 'Connections by section',
      note: 'of all its clients together',
      kind: 'count',
      max: 5,
      series: (view, {clients}) => bySection(clients, (name) => view.gauge(`client_connections.${name}`)),
    },
    {
      id: 'client-credits',
      title: 'Credits in use by section',
      note: 'calls not answered yet',
      kind: 'count',
      max: 5,
      series: (view, {clients}) => bySection(clients, (name) => view.gauge(`client_credits.${name}`)),
    },
    {
      id: 'client-refusals',
      title: 'Refused connections by section',
      note: 'per second: full, or not allowed',
      kind: '/s',
      max: 5,
      series: (view, {clients}) =>
        bySection(clients, (name) => view.sumRates([`client_refused.${name}`, `client_denied.${name}`])),
    },
  ],
};

// All charts, each in the section of its group. What comes and goes with a reload, their series tell of the snapshot.
export function buildCharts() {
  const charts = [];
  for (const [section, group] of Object.entries(DEFINITIONS)) {
    const parent = document.getElementById(section);
    for (const definition of group) {
      charts.push(definition.heat ? new HeatMap(parent, definition) : new Chart(parent, definition));
    }
  }
  return charts;
}
