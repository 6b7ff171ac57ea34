// The live page: asks the gateway once a second, keeps fifteen minutes, and draws.
import {Connections} from '/page/connections.js';
import {age, UNKNOWN} from '/page/format.js';
import {arrowsChoose, startKeys} from '/page/keys.js';
import {buildCharts} from '/page/panels.js';
import {showProblems} from '/page/problems.js';
import {State} from '/page/state.js';
import {Store} from '/page/store.js';
import {Tables} from '/page/tables.js';
import {nextTheme, startTheme} from '/page/theme.js';
import {buildTiles} from '/page/tiles.js';

const PERIOD_MS = 1000;
const PATIENCE_MS = 3000;

const store = new Store();
const state = new State();
let snapshot = null;
let charts = null;
let windowSeconds = 300;
let paused = false;
let received = 0; // performance.now() of the newest sample
let asking = false;

startTheme();
const tiles = buildTiles();
const connections = new Connections(() => refreshSnapshot().catch(() => {}));
let tables = null;

async function get(path) {
  const response = await fetch(path, {cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS)});
  if (!response.ok) {
    throw new Error(`${path}: ${response.status}`);
  }
  return response.json();
}

async function refreshHistory() {
  const history = await get('/api/history?since=' + store.next);
  if (!store.add(history)) {
    state.restarted(history.boot);
    store.add(await get('/api/history?since=0'));
  }
  if (history.time_ms.length) {
    received = performance.now();
  }
}

async function refreshSnapshot() {
  snapshot = await get('/api/snapshot?' + connections.query);
  showFacts();
  if (!paused) {
    connections.update(snapshot);
  }
}

function showFacts() {
  const seconds = (snapshot.now_ms - Number(snapshot.boot)) / 1000;
  document.title = `${snapshot.instance} · Causeway`;
  document.getElementById('instance').textContent = snapshot.instance;
  document.getElementById('facts').textContent = `up ${age(seconds)}`;
  document.getElementById('about').textContent =
    `causewayd ${snapshot.version || UNKNOWN} on DPDK ${(snapshot.dpdk || UNKNOWN).replace('DPDK ', '')}`;
}

function draw() {
  if (!charts && snapshot) {
    charts = buildCharts();
    tables = new Tables();
  }
  if (!charts) {
    return;
  }
  document.getElementById('budgets').hidden = snapshot.clients.length === 0;
  // The right edge goes on when nothing comes any more: the gap is what there is to see.
  const last = store.lastTime();
  const to = last ? last + Math.max(0, performance.now() - received - 2 * PERIOD_MS) / 1000 : Date.now() / 1000;
  const view = store.view(to - windowSeconds, to);
  tiles.forEach((tile) => tile.update(view, snapshot));
  charts.forEach((chart) => chart.update(view, snapshot));
  tables.update(view, snapshot);
  showProblems(view, snapshot);
  document.body.dataset.samples = view.length;
}

async function turn() {
  if (asking) {
    return;
  }
  asking = true;
  try {
    await refreshHistory();
    await refreshSnapshot();
    state.answered();
  } catch {
    state.failed();
  }
  asking = false;
  state.show(snapshot, paused);
  if (!paused) {
    draw();
  }
}

function setPaused(value) {
  paused = value;
  const button = document.getElementById('pause');
  button.setAttribute('aria-pressed', String(paused));
  button.textContent = paused ? 'Go on' : 'Pause';
  document.body.dataset.paused = String(paused);
  state.show(snapshot, paused);
  if (!paused) {
    draw();
  }
}

const windows = [...document.querySelectorAll('[data-window]')];

function setWindow(button) {
  windowSeconds = Number(button.dataset.window);
  for (const each of windows) {
    each.setAttribute('aria-checked', String(each === button));
    each.tabIndex = each === button ? 0 : -1;
  }
  draw();
}

windows.forEach((button) => button.addEventListener('click', () => setWindow(button)));
arrowsChoose(document.querySelector('[role=radiogroup]'), setWindow);
document.getElementById('pause').addEventListener('click', () => setPaused(!paused));
startKeys({
  1: () => setWindow(windows[0]),
  2: () => setWindow(windows[1]),
  3: () => setWindow(windows[2]),
  p: () => setPaused(!paused),
  t: nextTheme,
  c: () => document.getElementById('connections').focus(),
});
setWindow(windows[1]);
turn();
setInterval(turn, PERIOD_MS);
