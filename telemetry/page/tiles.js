// The row on top: one figure each, with what it has been. Red and amber only where somebody should look.
import {element} from '/page/chart.js';
import {count, latency, latencyParts, percent, rate, rateParts, UNKNOWN} from '/page/format.js';
import {busyShare} from '/page/panels.js';
import {latest} from '/page/store.js';
import {isFull} from '/page/tables.js';

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 120;
const HEIGHT = 26;
const RECENT = 60; // samples in a spark line
const BITS = 8;

// Each: label, values(view) for the line, now(view, snapshot) -> {figure, unit, sub, level}.
const TILES = [
  {
    id: 'connections',
    label: 'Connections',
    values: (view) => view.gauge('connections'),
    now: (view, snapshot) => {
      const now = latest(view.gauge('connections'));
      const most = snapshot ? snapshot.limits.connections_max : null;
      const full = snapshot ? snapshot.clients.filter(isFull).length : 0;
      const sub = full ? `${full === 1 ? '1 budget is' : `${full} budgets are`} full` : `of ${count(most)} at most`;
      return {figure: count(now), unit: '', sub, level: full || (most && now / most > 0.9) ? 'warn' : ''};
    },
  },
  {
    id: 'rpcs',
    label: 'RPC rate',
    values: (view) => view.sumRates(view.names('calls.')),
    now: (view) => {
      const parts = rateParts(latest(view.sumRates(view.names('calls.'))), 'RPC/s');
      return {...parts, sub: `${rate(latest(view.sumRates(['roce_packets_rx', 'roce_packets_tx'])), 'packets/s')}`};
    },
  },
  {
    id: 'in',
    label: 'In',
    values: (view) => view.rate('roce_bytes_rx', BITS),
    now: (view) => ({
      ...rateParts(latest(view.rate('roce_bytes_rx', BITS)), 'b/s'),
      sub: `${rate(latest(view.rate('chunk_bytes.read', BITS)), 'b/s')} by chunk`,
    }),
  },
  {
    id: 'out',
    label: 'Out',
    values: (view) => view.rate('roce_bytes_tx', BITS),
    now: (view) => {
      const chunks = view.sumRates(['chunk_bytes.write', 'chunk_bytes.reply'], BITS);
      return {...rateParts(latest(view.rate('roce_bytes_tx', BITS)), 'b/s'), sub: `${rate(latest(chunks), 'b/s')} by chunk`};
    },
  },
  {
    id: 'latency',
    label: 'Latency, p99',
    values: (view) => view.percentile(0.99),
    now: (view) => ({
      ...latencyParts(latest(view.percentile(0.99))),
      sub: `median ${latency(latest(view.percentile(0.5)))}${view.onlyBuiltin() ? ', built in' : ''}`,
    }),
  },
  {
    id: 'credits',
    label: 'Credits in use',
    values: (view) => view.gauge('credits_in_use'),
    now: (view) => ({
      figure: count(latest(view.gauge('credits_in_use'))),
      unit: '',
      sub: `of ${count(latest(view.gauge('credits_granted')))} granted`,
    }),
  },
  {
    id: 'retransmits',
    label: 'Retransmitted',
    values: (view) => view.rate('retransmitted_packets'),
    now: (view) => {
      const again = latest(view.rate('retransmitted_packets'));
      const sent = latest(view.rate('roce_packets_tx'));
      const share = sent > 0 ? again / sent : null;
      return {
        ...rateParts(again, '/s'),
        sub: `${share === null ? UNKNOWN : percent(share)} of packets`,
        level: share > 0.001 ? 'warn' : '',
      };
    },
  },
  {
    id: 'busy',
    label: 'Busiest poll core',
    values: busiest,
    now: (view, snapshot) => {
      const now = latest(busiest(view));
      const cores = snapshot ? snapshot.cores.length : null;
      return {
        figure: now === null ? UNKNOWN : String(Math.round(now * 100)),
        unit: '%',
        sub: cores === 1 ? 'of 1 core' : `of ${count(cores)} cores`,
        level: now > 0.9 ? 'warn' : '',
      };
    },
  },
  {
    id: 'backends',
    label: 'Backends up',
    values: null,
    now: (view, snapshot) => {
      const states = snapshot ? snapshot.backends.map(({name}) => latest(view.gauge(`backend_state.${name}`))) : [];
      const all = snapshot ? snapshot.backends.length : null;
      const up = states.filter((state) => state === 2).length;
      const down = states.filter((state) => state === 1).length;
      const servers = snapshot ? snapshot.servers.filter((server) => server.up !== null) : [];
      const serversDown = servers.filter((server) => server.up === false);
      if (serversDown.length && !down) {
        // All backends are up: what is amber is a server of one, and the figure is of servers.
        const sub = serversDown.length === 1 ? `${serversDown[0].address} is down` : `${serversDown.length} are down`;
        return {figure: `${servers.length - serversDown.length}/${servers.length}`, unit: 'servers', sub, level: 'warn'};
      }
      const rest = all - up > 0 ? `${all - up} not asked for yet` : 'all that are configured';
      return {
        figure: all === null ? UNKNOWN : `${up}/${all}`,
        unit: '',
        sub: down ? `${down} down` : rest,
        level: down ? 'bad' : '',
      };
    },
  },
];

function busiest(view) {
  const shares = view.names('lcore_busy_ns.').map((name) => busyShare(view, name.split('.')[1]));
  return view.times.map((_, i) =>
    shares.reduce((most, share) => (share[i] === null ? most : Math.max(most || 0, share[i])), null),
  );
}

class Tile {
  constructor(parent, definition) {
    this.definition = definition;
    this.figure = element('span', {class: 'figure'});
    this.unit = element('span', {class: 'unit'});
    this.sub = element('div', {class: 'sub muted'});
    this.line = document.createElementNS(SVG, 'path');
    this.box = element(
      'div',
      {class: 'tile', id: 'tile-' + definition.id, role: 'group', 'aria-label': definition.label},
      element('div', {class: 'label'}, definition.label),
      element('div', {class: 'now'}, this.figure, this.unit),
      this.sub,
      this.spark(),
    );
    parent.append(this.box);
  }

  spark() {
    const svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('aria-hidden', 'true');
    svg.append(this.line);
    return svg;
  }

  update(view, snapshot) {
    const now = this.definition.now(view, snapshot);
    this.figure.textContent = now.figure;
    this.unit.textContent = now.unit;
    this.sub.textContent = now.sub;
    this.box.dataset.level = now.level || '';
    if (this.definition.values) {
      this.line.setAttribute('d', path(this.definition.values(view).slice(-RECENT)));
    }
  }
}

function path(values) {
  const most = Math.max(...values.map((value) => value || 0), 1e-9);
  let command = 'M';
  return values
    .map((value, i) => {
      if (value === null) {
        command = 'M';
        return '';
      }
      const x = WIDTH - ((values.length - 1 - i) * WIDTH) / (RECENT - 1);
      const y = HEIGHT - 2 - (value / most) * (HEIGHT - 4);
      const point = `${command}${x.toFixed(1)} ${y.toFixed(1)}`;
      command = 'L';
      return point;
    })
    .join('');
}

export function buildTiles() {
  const parent = document.getElementById('tiles');
  return TILES.map((definition) => new Tile(parent, definition));
}
