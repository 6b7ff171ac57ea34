// What is wrong, the worst first, in sentences: for who comes at three in the morning and does not know which chart to look at.
import {element} from '/page/chart.js';
import {count, percent, time} from '/page/format.js';
import {latest} from '/page/store.js';
import {isFull} from '/page/tables.js';

const LOSSY = 0.01; // of the packets sent, as the alert CausewayRetransmitRatioHigh has it
const FEW_PACKETS = 100; // in the window: below it a share says nothing
const BUSY = 0.9;
const SLOW = 3; // times the window's own median of the p99
const SLOW_NS = 1e6; // and at least: what is quicker is no trouble
const RECENT = 10; // seconds

function plural(number, thing) {
  return `${count(number)} ${thing}${number === 1 ? '' : 's'}`;
}

function lossy(view) {
  const again = view.grown('retransmitted_packets');
  const sent = view.grown('roce_packets_tx');
  if (sent < FEW_PACKETS || again / sent < LOSSY) {
    return [];
  }
  return [['warn', `The network loses packets: ${percent(again / sent)} of those sent in this window were sent again.`]];
}

function refused(view) {
  const clients = view.names('client_refused.').reduce((sum, name) => sum + view.grown(name), 0);
  const denied = view.names('client_denied.').reduce((sum, name) => sum + view.grown(name), 0);
  const problems = [];
  if (clients) {
    problems.push(['bad', `${plural(clients, 'connection')} refused in this window: a [[client]] section is full.`]);
  }
  if (denied) {
    problems.push(['warn', `${plural(denied, 'connection')} refused in this window: a [[client]] section does not allow them.`]);
  }
  const others = view.grown('connections_refused') - clients - denied;
  if (others > 0) {
    problems.push(['bad', `${plural(others, 'connection')} refused in this window: the log lines below say why.`]);
  }
  return problems;
}

// Slower than it was: against its own past, since nobody knows here what the storage promises.
function slow(view) {
  const known = view.percentile(0.99).filter((ns) => ns !== null);
  if (known.length < 3 * RECENT) {
    return [];
  }
  const middle = (values) => values.slice().sort((a, b) => a - b)[values.length >> 1];
  const now = middle(known.slice(-RECENT));
  const before = middle(known.slice(0, -RECENT));
  return now > SLOW * before && now > SLOW_NS
    ? [['warn', `Calls are slow: p99 is ${time(now)}, and was ${time(before)} before in this window.`]]
    : [];
}

function atBackends(view) {
  return view
    .names('backend_timeouts.')
    .map((name) => [name.slice('backend_timeouts.'.length), view.grown(name)])
    .filter(([, calls]) => calls > 0)
    .map(([name, calls]) => ['bad', `Backend ${name} did not answer ${plural(calls, 'call')} in time in this window.`]);
}

function full(view, snapshot) {
  const problems = snapshot.clients.filter(isFull).map((client) => ['warn', `[[client]] section ${client.name} is full.`]);
  const connections = latest(view.gauge('connections'));
  if (connections >= snapshot.limits.connections_max) {
    const most = plural(snapshot.limits.connections_max, 'connection');
    problems.push(['bad', `The gateway has the ${most} of limits.connections_max: nobody else may connect.`]);
  }
  return problems;
}

function busy(view, snapshot) {
  return snapshot.cores.flatMap((core, i) => {
    const spent = latest(view.gauge(`lcore_busy_ns.${i}`));
    const all = spent + latest(view.gauge(`lcore_idle_ns.${i}`));
    return spent !== null && all > 0 && spent / all > BUSY
      ? [['warn', `The poll core on CPU ${core.lcore} is busy ${percent(spent / all)} of the time.`]]
      : [];
  });
}

// [level, sentence], the worst first.
export function problemsOf(view, snapshot) {
  const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + '.';
  const all = [
    ...(snapshot.live && !snapshot.ready && !snapshot.draining
      ? snapshot.reason.split('; ').map((reason) => ['bad', `Not ready for clients: ${reason}.`])
      : []),
    ...atBackends(view),
    ...refused(view),
    ...full(view, snapshot),
    ...snapshot.warnings.map((warning) => ['warn', sentence(warning)]),
    ...lossy(view),
    ...slow(view),
    ...busy(view, snapshot),
  ];
  return [...all.filter(([level]) => level === 'bad'), ...all.filter(([level]) => level !== 'bad')];
}

let shown = '';
export function showProblems(view, snapshot) {
  const problems = problemsOf(view, snapshot);
  const list = document.getElementById('problems');
  const newest = JSON.stringify(problems);
  if (newest !== shown) {
    shown = newest; // what did not change is not read out again
    list.replaceChildren(...problems.map(([level, text]) => element('li', {class: level}, text)));
  }
  list.hidden = problems.length === 0;
}
