// What is better read than seen: calls by procedure, discards by reason, backends, ports and listeners, log lines.
import {element} from '/page/chart.js';
import {age, clock, count, latency, rate, time, UNKNOWN} from '/page/format.js';
import {latest} from '/page/store.js';

const STATES = [
  ['unknown', 'not asked for yet'],
  ['bad', 'down'],
  ['good', 'up'],
];
const NEARLY_FULL = 0.9; // of a budget
const PREFIXES_SHOWN = 3;
const LOST = {
  port_rx_missed: 'port: no descriptor',
  port_rx_no_mbuf: 'port: no buffer',
  port_rx_errors: 'port: broken frame',
  port_tx_dropped: 'port: transmit queue full',
  frames_not_handed: 'between cores: queue full',
};

// A table whose rows are replaced as a whole; cells are texts or nodes.
export class Table {
  constructor(parent, id, title, note, columns, empty, wide) {
    this.columns = columns;
    this.body = element('tbody');
    this.empty = element('p', {class: 'empty'}, empty);
    this.note = element('span', {class: 'muted note'}, note);
    const head = element(
      'tr',
      {},
      ...columns.map((column) => element('th', {scope: 'col', class: columnClass(column)}, column.label)),
    );
    this.panel = element(
      'section',
      {class: 'panel ' + (wide || ''), id, 'aria-label': title, tabindex: '0'},
      element('div', {class: 'caption'}, element('span', {class: 'title'}, title), this.note),
      element('div', {class: 'scroll'}, element('table', {class: 'cards'}, element('thead', {}, head), this.body)),
      this.empty,
    );
    parent.append(this.panel);
  }

  update(rows) {
    this.body.replaceChildren(
      ...rows.map((row) =>
        element(
          'tr',
          {},
          ...row.map((cell, i) =>
            element('td', {class: columnClass(this.columns[i]), 'data-label': this.columns[i].label}, cell),
          ),
        ),
      ),
    );
    this.panel.dataset.rows = rows.length;
    this.empty.hidden = rows.length > 0;
    this.body.parentElement.hidden = rows.length === 0;
  }
}

function number(label) {
  return {label, number: true};
}

// Of bars: what room the others leave.
const BARS = {label: '', bars: true};

function columnClass(column) {
  return column.number ? 'number' : column.bars ? 'bars' : null;
}

// A bar as wide as its share of the greatest.
function bar(share, color) {
  const filled = element('span', {class: 'filled ' + color});
  filled.style.width = Math.max(share * 100, share > 0 ? 2 : 0) + '%';
  return element('span', {class: 'meter', 'aria-hidden': 'true'}, filled);
}

function pill(level, text) {
  return element('span', {class: 'state ' + level}, text);
}

// What is used of a limit, if there is one.
function use(now, most, text) {
  if (most === null) {
    return `${text(now)}, no limit`;
  }
  const share = most > 0 ? Math.min(1, now / most) : 1;
  const color = share >= 1 ? 's5' : share > NEARLY_FULL ? 's3' : 's1';
  return element('span', {class: 'use'}, bar(share, color), `${text(now)} of ${text(most)}`);
}

// Something that should not be: red as soon as there is any.
function trouble(value) {
  return value > 0 ? element('span', {class: 'trouble'}, count(value)) : count(value);
}

function bytes(value) {
  return rate(value, 'B');
}

function procedureRows(view) {
  const seconds = view.seconds();
  const rows = view
    .names('calls.')
    .map((name) => ({name: name.slice(6), calls: view.grown(name), ns: view.grown('call_ns.' + name.slice(6))}))
    .filter((row) => row.calls > 0)
    .sort((a, b) => b.calls - a.calls);
  const most = rows.length ? rows[0].calls : 1;
  return rows.map((row) => [
    row.name.replace('/', ' '),
    bar(row.calls / most, 's1'),
    rate(row.calls / seconds, 'RPC/s'),
    count(row.calls),
    latency(row.ns / row.calls),
  ]);
}

const STAGES = [
  ['rx', 'arriving and waiting for its turn'],
  ['rdma_read', 'RDMA Read: pulling the call'],
  ['backend', 'backend'],
  ['rdma_write', 'RDMA Write until acknowledged'],
  ['reply_ack', 'other replies until acknowledged'],
];

function stageRows(view) {
  const rows = STAGES.map(([name, label]) => ({
    label,
    calls: view.grown('stage_calls.' + name),
    ns: view.grown('stage_ns.' + name),
    worst: Math.max(...view.gauge('stage_p99_ns.' + name), 0),
  })).filter((row) => row.calls > 0);
  const most = Math.max(...rows.map((row) => row.ns / row.calls), 1);
  return rows.map((row) => [
    row.label,
    bar(row.ns / row.calls / most, 's2'),
    count(row.calls),
    latency(row.ns / row.calls),
    latency(row.worst),
  ]);
}

function discardRows(view) {
  const reasons = [...view.names('discards.').map((name) => [name, name.slice(9).replaceAll('_', ' ')]), ...Object.entries(LOST)];
  const rows = reasons
    .map(([name, label]) => ({label, packets: view.grown(name)}))
    .filter((row) => row.packets > 0)
    .sort((a, b) => b.packets - a.packets);
  const most = rows.length ? rows[0].packets : 1;
  return rows.map((row) => [
    row.label,
    bar(row.packets / most, 's5'),
    rate(row.packets / view.seconds(), '/s'),
    count(row.packets),
  ]);
}

function backendRows(view, snapshot) {
  return snapshot.backends.map((backend) => {
    const now = (name) => latest(view.gauge(`${name}.${backend.name}`));
    const [level, text] = STATES[now('backend_state') || 0];
    const failures = ['backend_failures', 'backend_lost', 'backend_timeouts'].map((name) =>
      count(view.grown(`${name}.${backend.name}`)),
    );
    return [
      backend.name,
      backend.type === 'tcp' ? backend.address : 'built in',
      pill(level, text),
      count(now('backend_links')),
      count(now('backend_in_flight')),
      rate(latest(view.rate(`backend_calls.${backend.name}`)), 'calls/s'),
      ...failures,
    ];
  });
}

function serverState(server) {
  if (server.up !== null) {
    return server.up ? pill('good', 'up') : pill('bad', 'down');
  }
  return server.checked ? pill('warn', 'checking') : pill('unknown', 'not checked');
}

function serverRows(snapshot) {
  return snapshot.servers.map((server) => [
    server.backend,
    server.address,
    server.role,
    serverState(server),
    server.preferred ? element('span', {class: 'next'}, 'go here') : '',
    count(server.connections),
    count(server.calls_in_flight),
    server.check_age_seconds === null ? UNKNOWN : `${age(server.check_age_seconds)} ago`,
    server.checks > 0 ? time(server.check_seconds * 1e9) : UNKNOWN,
    `${count(server.check_failures)} of ${count(server.checks)}`,
    element('span', {class: 'trouble'}, server.check_error),
  ]);
}

function prefixes(client) {
  const all = client.prefixes.join(', ');
  const rest = client.prefixes.length - PREFIXES_SHOWN;
  return rest > 0
    ? element('span', {title: all}, `${client.prefixes.slice(0, PREFIXES_SHOWN).join(', ')} and ${rest} more`)
    : all;
}

// Nobody else of the section gets a connection.
export function isFull(client) {
  return client.allow && client.connections_max !== null && client.connections >= client.connections_max;
}

function clientState(client) {
  if (client.prefixes.length === 0) {
    return pill('unknown', 'removed');
  }
  if (!client.allow) {
    return pill('unknown', 'not allowed');
  }
  return isFull(client) ? pill('warn', 'full') : pill('good', 'open');
}

function clientRows(view, snapshot) {
  return snapshot.clients.map((client) => [
    client.name,
    prefixes(client),
    clientState(client),
    use(client.connections, client.connections_max, count),
    client.credits_max === null ? 'as listener' : count(client.credits_max),
    `${count(client.credits_in_use)} of ${count(client.credits_granted)}`,
    use(client.bytes_in_flight, client.bytes_in_flight_max, bytes),
    count(view.grown(`client_postponed.${client.name}`)),
    trouble(view.grown(`client_refused.${client.name}`)),
    count(view.grown(`client_denied.${client.name}`)),
  ]);
}

function placeRows(snapshot) {
  const ports = snapshot.ports.map((port) => [
    'port',
    port.device.split(',')[0],
    port.addresses.join(', '),
    `MTU ${port.mtu}, path MTU ${port.path_mtu}`,
    pill(port.link_up ? 'good' : 'bad', port.link_up ? 'link up' : 'link down'),
  ]);
  const rdmaPorts = snapshot.rdma_ports.map((port) => [
    'RDMA port',
    port.device,
    port.port === null ? '' : `port ${port.port}`,
    '',
    pill(port.active ? 'good' : 'bad', port.state),
  ]);
  const listeners = snapshot.listeners.map((listener) => [
    'listener',
    listener.name,
    `RDMA port ${listener.port}`,
    listener.removed
      ? 'removed: takes no new clients'
      : listener.cut_off ||
        `${listener.credits} credits each, ${listener.backend ? 'to ' + listener.backend : 'by route only'}`,
    listener.removed
      ? `${count(listener.connections)} connections left`
      : `${count(listener.connections)} of ${count(listener.connections_max)} connections`,
  ]);
  const routes = snapshot.routes
    .filter((route) => route.program !== null)
    .map((route) => [
      'route',
      `${route.listener}, program ${route.program}`,
      '',
      `to ${route.backend}`,
      `${count(route.calls)} calls since the start`,
    ]);
  return [...ports, ...rdmaPorts, ...listeners, ...routes];
}

export class Tables {
  constructor() {
    this.procedures = new Table(
      document.getElementById('latency'),
      'procedures',
      'Procedures',
      'over the window',
      [{label: 'Procedure'}, BARS, number('Rate'), number('Calls'), number('Mean latency')],
      'No calls in this window.',
    );
    this.stages = new Table(
      document.getElementById('latency'),
      'stage-means',
      'Stages',
      'over the window; of replies without chunks every 16th is timed',
      [{label: 'Stage'}, BARS, number('Timed'), number('Mean'), number('p99, worst second')],
      'No calls in this window.',
    );
    this.discards = new Table(
      document.getElementById('transport'),
      'reasons',
      'Discards and drops by reason',
      'over the window',
      [{label: 'Reason'}, BARS, number('Rate'), number('Packets')],
      'None in this window.',
      'wide',
    );
    this.backends = new Table(
      document.getElementById('resources'),
      'backend-health',
      'Backends',
      'troubles over the window',
      [
        {label: 'Backend'},
        {label: 'Address'},
        {label: 'State'},
        number('Connections'),
        number('At backend'),
        number('Rate'),
        number('Failed connects'),
        number('Lost'),
        number('Timeouts'),
      ],
      UNKNOWN,
      'wide',
    );
    this.servers = new Table(
      document.getElementById('resources'),
      'servers',
      'Servers of backends',
      'in order of preference',
      [
        {label: 'Backend'},
        {label: 'Server'},
        {label: 'Role'},
        {label: 'State'},
        {label: 'New connections'},
        number('Connections'),
        number('In flight'),
        number('Last check'),
        number('Took'),
        number('Failed checks'),
        {label: 'Why the last failed'},
      ],
      'No backend has servers: built-in programs need none.',
      'wide',
    );
    this.clients = new Table(
      document.getElementById('clients'),
      'client-budgets',
      'Budgets',
      'now; waits and refusals over the window',
      [
        {label: 'Section'},
        {label: 'Clients'},
        {label: 'State'},
        {label: 'Connections'},
        number('Credits each'),
        number('In use'),
        {label: 'Chunks in flight'},
        number('Calls that waited'),
        number('Refused: full'),
        number('Refused: not allowed'),
      ],
      'No [[client]] section is configured.',
      'wide',
    );
    this.places = new Table(
      document.getElementById('resources'),
      'places',
      'Ports, listeners and routes',
      '',
      [{label: 'Kind'}, {label: 'Name'}, {label: 'Address'}, {label: 'Setting'}, {label: 'State'}],
      UNKNOWN,
      'wide',
    );
  }

  update(view, snapshot) {
    this.procedures.update(procedureRows(view));
    this.stages.update(stageRows(view));
    this.discards.update(discardRows(view));
    if (snapshot) {
      this.backends.update(backendRows(view, snapshot));
      this.servers.update(serverRows(snapshot));
      this.clients.update(clientRows(view, snapshot));
      this.places.update(placeRows(snapshot));
      updateNotices(snapshot.notices);
    }
  }
}

let shownNotices = '';
function updateNotices(notices) {
  const newest = JSON.stringify(notices);
  if (newest === shownNotices) {
    return; // somebody may be selecting text in it
  }
  shownNotices = newest;
  document.querySelector('#notices tbody').replaceChildren(
    ...notices
      .slice()
      .reverse()
      .map((notice) =>
        element(
          'tr',
          {},
          element('td', {class: 'nowrap'}, clock(notice.time_ms / 1000)),
          element('td', {}, pill(notice.level, notice.level)),
          element('td', {class: 'line'}, notice.text),
        ),
      ),
  );
  document.getElementById('notices').hidden = notices.length === 0;
  document.getElementById('no-notices').hidden = notices.length > 0;
}
