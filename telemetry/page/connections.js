// The table of connections. The gateway sorts, since it may have more of them than it sends.
import {element} from '/page/chart.js';
import {age, count, qpn, rate, time, UNKNOWN} from '/page/format.js';
import {say} from '/page/state.js';
import {Table} from '/page/tables.js';

const BITS = 8;

// sort: the word of /api/snapshot; null: by this the gateway does not sort.
const COLUMNS = [
  {label: 'Peer', sort: 'peer', cell: peer},
  {label: 'Listener', sort: 'listener', cell: (row) => row.listener},
  {label: 'CPU', sort: 'lcore', number: true, cell: (row) => String(row.lcore)},
  {label: 'Wire', sort: null, cell: (row) => row.wire},
  {label: 'QPN', sort: null, cell: queuePairs, mono: true},
  {label: 'In use / granted', sort: 'in_flight', cell: credits},
  {label: 'RPC/s', sort: 'rpcs', number: true, cell: (row) => rate(row.rpcs_per_s, '').trim() || UNKNOWN},
  {label: 'In + out', sort: 'bytes', number: true, cell: (row) => both(row.bytes_in_per_s, row.bytes_out_per_s)},
  {label: 'Retransmits', sort: 'retransmits', number: true, cell: (row) => count(row.retransmits)},
  {label: 'Round trip', sort: 'round_trip', number: true, cell: (row) => roundTrip(row.round_trip_seconds)},
  {label: 'RPCs', sort: null, number: true, cell: (row) => count(row.rpcs)},
  {label: 'Age', sort: 'age', number: true, cell: (row) => age(row.age_seconds)},
];

function peer(row) {
  const address = row.peer_address.includes(':')
    ? `[${row.peer_address}]:${row.peer_port}`
    : `${row.peer_address}:${row.peer_port}`;
  return row.state === 'established' ? address : `${address} (${row.state})`;
}

// iWARP has no numbers for queue pairs.
function queuePairs(row) {
  return row.local_qpn === null ? UNKNOWN : `${qpn(row.local_qpn)} ↔ ${qpn(row.remote_qpn)}`;
}

function roundTrip(seconds) {
  return seconds > 0 ? time(seconds * 1e9) : UNKNOWN;
}

function credits(row) {
  const filled = element('span', {class: 'filled s1'});
  filled.style.width = (row.credits_granted ? Math.min(1, row.calls_in_flight / row.credits_granted) * 100 : 0) + '%';
  return element(
    'span',
    {class: 'credits'},
    element('span', {class: 'meter', 'aria-hidden': 'true'}, filled),
    `${row.calls_in_flight} / ${row.credits_granted}`,
  );
}

function both(bytesIn, bytesOut) {
  return bytesIn === null ? UNKNOWN : `${rate(bytesIn * BITS, 'b/s')} + ${rate(bytesOut * BITS, 'b/s')}`;
}

// One line per client address: who it is, before which of his connections.
const CLIENT_COLUMNS = [
  {label: 'Client', cell: (row) => row.address},
  {label: 'Connections', number: true, cell: (row) => count(row.connections)},
  {label: 'In use / granted', cell: credits},
  {label: 'RPC/s', number: true, cell: (row) => rate(row.rpcs_per_s, '').trim() || UNKNOWN},
  {label: 'In + out', number: true, cell: (row) => both(row.bytes_in_per_s, row.bytes_out_per_s)},
  {label: 'Mean time', number: true, cell: (row) => roundTrip(row.mean_seconds)},
  {label: 'Errors', number: true, cell: errors},
  {label: 'Retransmits', number: true, cell: (row) => count(row.retransmits)},
  {label: 'Round trip', number: true, cell: (row) => roundTrip(row.round_trip_seconds)},
  {label: 'RPCs', number: true, cell: (row) => count(row.rpcs)},
];

// All that there were, and how fast they come while they do.
function errors(row) {
  return row.errors_per_s > 0 ? `${count(row.errors)} (${rate(row.errors_per_s, '/s')})` : count(row.errors);
}

export class Connections {
  // `ask`: called when another order or number of rows is wanted.
  constructor(ask) {
    this.ask = ask;
    this.sort = 'rpcs';
    this.reversed = false;
    this.limit = document.getElementById('connection-limit');
    this.limit.addEventListener('change', ask);
    this.body = document.querySelector('#connection-table tbody');
    this.clients = new Table(
      document.getElementById('by-client'),
      'client-sums',
      'By client',
      '',
      CLIENT_COLUMNS,
      'No client is connected.',
      'wide',
    );
    this.heads = COLUMNS.map((column) => this.head(column));
    document.querySelector('#connection-table thead tr').replaceChildren(...this.heads);
    this.markOrder();
  }

  get query() {
    return `limit=${this.limit.value}&sort=${this.sort}${this.reversed ? '&reversed' : ''}`;
  }

  head(column) {
    const head = element('th', {scope: 'col', class: column.number ? 'number' : null});
    if (column.sort === null) {
      head.textContent = column.label;
      return head;
    }
    const arrow = element('span', {class: 'arrow', 'aria-hidden': 'true'});
    const button = element(
      'button',
      {type: 'button', title: 'Sort by this, and the other way round'},
      ...(column.number ? [arrow, column.label] : [column.label, arrow]),
    );
    button.addEventListener('click', () => this.order(column.sort));
    head.append(button);
    return head;
  }

  order(sort) {
    this.reversed = sort === this.sort && !this.reversed;
    this.sort = sort;
    this.markOrder();
    this.ask();
  }

  // Figures begin with the highest, names with the first.
  markOrder() {
    COLUMNS.forEach((column, i) => {
      const rising = (column.sort === 'peer' || column.sort === 'listener' || column.sort === 'lcore') !== this.reversed;
      const sorted = column.sort === this.sort;
      this.heads[i].setAttribute('aria-sort', sorted ? (rising ? 'ascending' : 'descending') : 'none');
    });
  }

  update(snapshot) {
    const {rows, count: all} = snapshot.connections;
    const peers = snapshot.peers;
    this.clients.panel.hidden = peers.count === 0;
    this.clients.update(peers.rows.map((row) => CLIENT_COLUMNS.map((column) => column.cell(row))));
    this.clients.note.textContent =
      peers.count === peers.rows.length ? `${count(peers.count)}` : `the busiest ${peers.rows.length} of ${count(peers.count)}`;
    this.body.replaceChildren(
      ...rows.map((row) =>
        element(
          'tr',
          {'data-peer': row.peer_address, class: row.last_error ? 'failed' : null, title: row.last_error || null},
          ...COLUMNS.map((column) =>
            element(
              'td',
              {
                class: [column.number ? 'number' : '', column.mono ? 'mono' : ''].join(' ').trim() || null,
                'data-label': column.label,
              },
              column.cell(row),
            ),
          ),
        ),
      ),
    );
    say(
      document.getElementById('connection-count'),
      all === rows.length ? count(all) : `the first ${count(rows.length)} of ${count(all)}`,
    );
    const none = document.getElementById('no-connections');
    none.hidden = all > 0;
    document.getElementById('connection-table').hidden = all === 0;
    none.textContent = all > 0 ? '' : emptyText(snapshot);
  }
}

function emptyText(snapshot) {
  const addresses = snapshot.ports.flatMap((port) => port.addresses.map((address) => address.split('/')[0]));
  const ports = snapshot.listeners.map((listener) => listener.port);
  if (snapshot.draining) {
    return 'No connections: the gateway is draining and takes no new ones.';
  }
  const where = addresses.join(', ') || 'no address';
  return `No client is connected. The gateway listens at ${where}, RDMA port ${ports.join(', ') || UNKNOWN}.`;
}
