// What is better read than seen: calls by procedure, discards by reason, backends, ports and listeners, log lines.
import {element} from '/page/chart.js';
import {clock, count, latency, rate, UNKNOWN} from '/page/format.js';
import {latest} from '/page/store.js';

const STATES = [
  ['unknown', 'not asked for yet'],
  ['bad', 'down'],
  ['good', 'up'],
];
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
      element('div', {class: 'scroll'}, element('table', {}, element('thead', {}, head), this.body)),
      this.empty,
    );
    parent.append(this.panel);
  }

  update(rows) {
    this.body.replaceChildren(
      ...rows.map((row) =>
        element('tr', {}, ...row.map((cell, i) => element('td', {class: columnClass(this.columns[i])}, cell))),
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
  return snapshot.backends.map((backend, i) => {
    const now = (name) => latest(view.gauge(`${name}.${i}`));
    const [level, text] = STATES[now('backend_state') || 0];
    const trouble = ['backend_failures', 'backend_lost', 'backend_timeouts'].map((name) => count(view.grown(`${name}.${i}`)));
    return [
      backend.name,
      backend.type === 'tcp' ? backend.address : 'built in',
      pill(level, text),
      count(now('backend_links')),
      count(now('backend_in_flight')),
      rate(latest(view.rate(`backend_calls.${i}`)), 'calls/s'),
      ...trouble,
    ];
  });
}

function placeRows(snapshot) {
  const ports = snapshot.ports.map((port) => [
    'port',
    port.device.split(',')[0],
    port.addresses.join(', '),
    `MTU ${port.mtu}, path MTU ${port.path_mtu}`,
    pill(port.link_up ? 'good' : 'bad', port.link_up ? 'link up' : 'link down'),
  ]);
  const listeners = snapshot.listeners.map((listener) => [
    'listener',
    listener.name,
    `RDMA port ${listener.port}`,
    `${listener.credits} credits each, to ${listener.backend}`,
    `${count(listener.connections)} of ${count(listener.connections_max)} connections`,
  ]);
  return [...ports, ...listeners];
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
    this.places = new Table(
      document.getElementById('resources'),
      'places',
      'Ports and listeners',
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
