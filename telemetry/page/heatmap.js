// The latency heat map: a column per second, a row per half power of two, the darker the more calls; percentiles on top.
//
// It is a Chart whose y axis is log2 of nanoseconds, so that rows are equally high, and which draws its cells below the lines.
import {Chart, element} from '/page/chart.js';
import {latency, rate, time} from '/page/format.js';
import {latest, upperNs} from '/page/store.js';
import {onThemeChange, palette} from '/page/theme.js';

const ROWS_PER_POWER = 2;
const TICKS_NS = [
  1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 1e10, 3e10,
];
const STEPS = 64;

let ramp = [];

function rowOf(ns) {
  return Math.floor(Math.log2(Math.max(ns, 512)) * ROWS_PER_POWER);
}

function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function makeRamp() {
  const stops = ['heat0', 'heat1', 'heat2', 'heat3', 'heat4', 'heat5'].map((name) => channels(palette[name] || '#000000'));
  ramp = Array.from({length: STEPS}, (_, i) => {
    const place = (i / (STEPS - 1)) * (stops.length - 1);
    const at = Math.min(Math.floor(place), stops.length - 2);
    const mixed = stops[at].map((from, c) => Math.round(from + (stops[at + 1][c] - from) * (place - at)));
    return `rgb(${mixed.join(',')})`;
  });
}

// Before any chart asks to be told, so that they redraw with the new colours.
onThemeChange(makeRamp);

export class HeatMap extends Chart {
  constructor(parent, definition) {
    super(parent, {
      ...definition,
      kind: 'time',
      series: (view) => this.lines(view),
      hooks: () => ({drawClear: [(u) => this.drawCells(u)]}),
    });
    this.rows = [];
    this.most = 0;
    this.scaleText = element('span', {class: 'muted'});
    this.scaleBar = element('span', {class: 'ramp', 'aria-hidden': 'true'});
    this.figure
      .querySelector('figcaption')
      .append(element('span', {class: 'end scale'}, '1 call/s', this.scaleBar, this.scaleText));
  }

  // Percentiles as heights of the axis.
  lines(view) {
    const heights = (fraction) => view.percentile(fraction).map((ns) => (ns === null ? null : Math.log2(ns)));
    this.collect(view);
    return [
      {label: 'p50', color: 's3', values: heights(0.5)},
      {label: 'p99', color: 's3', values: heights(0.99), dash: [4, 3]},
    ];
  }

  // rows[i]: Map of row to calls per second, for sample i.
  collect(view) {
    const starts = view.store.bucketNs;
    this.most = 0;
    this.lowest = Infinity;
    this.highest = -Infinity;
    this.rows = view.bucketLists().map((buckets, i) => {
      const rows = new Map();
      for (let b = 0; buckets && b < buckets.length; b += 2) {
        // All that is too short to be told apart stands in the row below 1 µs.
        const row = buckets[b] === 0 ? rowOf(starts[1]) - 1 : rowOf((starts[buckets[b]] + upperNs(starts, buckets[b])) / 2);
        const calls = (rows.get(row) || 0) + buckets[b + 1] / view.intervals[i];
        rows.set(row, calls);
        this.most = Math.max(this.most, calls);
        this.lowest = Math.min(this.lowest, row);
        this.highest = Math.max(this.highest, row);
      }
      return rows;
    });
    this.scaleText.textContent = rate(Math.max(this.most, 1), 'calls/s');
    this.figure.dataset.cells = this.rows.reduce((total, rows) => total + rows.size, 0);
  }

  yScale() {
    return {
      range: () =>
        this.highest < this.lowest
          ? [Math.log2(1e4), Math.log2(1e7)]
          : [(this.lowest - 1) / ROWS_PER_POWER, Math.max(this.highest + 2, this.lowest + 9) / ROWS_PER_POWER],
    };
  }

  yAxis() {
    const values = (u, ticks) => ticks.map((tick) => time(2 ** tick).replace(/\.0+(?=\D)/, ''));
    const axis = this.axis({size: 62, space: 26, grid: false, values});
    axis.splits = (u, i, min, max) => ticksBetween(min, max);
    return axis;
  }

  drawCells(u) {
    const {ctx, bbox} = u;
    ctx.save();
    ctx.fillStyle = palette.heat0;
    ctx.fillRect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const scale = (STEPS - 2) / Math.log(Math.max(this.most, 2) + 1);
    this.rows.forEach((rows, i) => {
      const right = u.valToPos(this.view.times[i], 'x', true);
      const left = u.valToPos(this.view.times[i] - (this.view.intervals[i] || 0), 'x', true);
      for (const [row, calls] of rows) {
        const top = u.valToPos((row + 1) / ROWS_PER_POWER, 'y', true);
        const bottom = u.valToPos(row / ROWS_PER_POWER, 'y', true);
        ctx.fillStyle = ramp[1 + Math.round(Math.log(calls + 1) * scale)] || ramp[STEPS - 1];
        ctx.fillRect(Math.floor(left), Math.floor(top), Math.ceil(right) - Math.floor(left), Math.ceil(bottom) - Math.floor(top));
      }
    });
    // Lines have to be seen on cells of any shade.
    [0.5, 0.99].forEach((fraction) => this.drawHalo(u, this.view.percentile(fraction)));
    ctx.restore();
  }

  drawHalo(u, values) {
    const {ctx} = u;
    ctx.beginPath();
    let drawn = false;
    values.forEach((ns, i) => {
      if (ns !== null) {
        const x = u.valToPos(this.view.times[i], 'x', true);
        const y = u.valToPos(Math.log2(ns), 'y', true);
        ctx[drawn ? 'lineTo' : 'moveTo'](x, y);
      }
      drawn = ns !== null;
    });
    ctx.strokeStyle = palette.panel + '99';
    ctx.lineWidth = 4 * devicePixelRatio;
    ctx.lineJoin = 'round';
    ctx.stroke();
  }

  showLegend(at) {
    this.series.forEach((each, i) => {
      const height = at === null || at === undefined ? latest(each.values) : each.values[at];
      this.values[i].textContent = latency(height === null ? null : 2 ** height);
    });
  }

  tipRows(at) {
    const height = this.uplot.posToVal(this.uplot.cursor.top, 'y');
    const row = Math.floor(height * ROWS_PER_POWER);
    const calls = this.rows[at] && this.rows[at].get(row);
    const range = `${time(2 ** (row / ROWS_PER_POWER))} to ${time(2 ** ((row + 1) / ROWS_PER_POWER))}`;
    return [
      tipRow(range, rate(calls || 0, 'calls/s')),
      ...[0.5, 0.99].map((fraction) => tipRow('p' + fraction * 100, latency(this.view.percentile(fraction)[at]))),
    ];
  }

  readings(at) {
    return [0.5, 0.99].map((fraction) => `p${fraction * 100} ${latency(this.view.percentile(fraction)[at])}`);
  }

  describe() {
    super.describe();
    const now = this.readings(this.view.length - 1);
    this.figure.setAttribute('aria-label', `${this.definition.title}. Now: ${now.join(', ')}. Arrow keys read the chart.`);
    this.empty.hidden = this.highest >= this.lowest;
  }
}

function tipRow(label, value) {
  return element('div', {class: 'row'}, element('span', {}, label), element('span', {class: 'value'}, value));
}

// As many of 1, 2, 5, 10 ... as fit.
function ticksBetween(min, max) {
  const powers = max - min;
  const wanted = TICKS_NS.filter((ns) => powers <= 8 || String(ns)[0] === '1');
  return wanted.map(Math.log2).filter((tick) => tick >= min && tick <= max);
}
