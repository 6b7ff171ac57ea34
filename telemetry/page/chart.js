// One chart over time: a figure with a title, a legend that tells the values at the cursor, and a tooltip. All charts have one
// cursor in common.
//
// A definition says what is drawn:
//   id, title, note           texts
//   kind                      of the y axis: "bits", "time" (ns), "percent", "count", or a unit such as "RPC/s"
//   series(view, snapshot) -> [{label, color, values, fill, dash}]   in the order of the legend
//   log, max                  logarithmic axis; lowest top of the axis
import {axisLabels, byKind, clock, UNKNOWN} from '/page/format.js';
import {latest} from '/page/store.js';
import {onThemeChange, palette} from '/page/theme.js';

const HEIGHT = 190;
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const SYNC = 'causeway';

const charts = [];
let readingTimer = 0;

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) {
      made.setAttribute(name, value);
    }
  }
  made.append(...children);
  return made;
}

export class Chart {
  constructor(parent, definition) {
    this.definition = definition;
    this.hidden = new Set();
    this.keys = '';
    this.view = null;
    this.series = [];
    this.legend = element('ul', {class: 'legend'});
    this.plot = element('div', {class: 'plot'});
    this.tip = element('div', {class: 'tip', 'aria-hidden': 'true'});
    this.tip.hidden = true;
    this.empty = element('p', {class: 'empty'}, definition.empty || 'Nothing in this window.');
    this.empty.hidden = true;
    this.plot.append(this.tip, this.empty);
    this.figure = element('figure', {
      class: 'panel chart ' + (definition.wide ? 'wide' : ''),
      id: 'chart-' + definition.id,
      tabindex: '0',
      role: 'group',
      'aria-label': definition.title,
    });
    const caption = element('figcaption', {}, element('span', {class: 'title'}, definition.title));
    if (definition.note) {
      caption.append(element('span', {class: 'muted note'}, definition.note));
    }
    this.figure.append(caption, this.legend, this.plot);
    parent.append(this.figure);
    this.figure.addEventListener('keydown', (event) => this.onKey(event));
    this.figure.addEventListener('blur', () => this.leave());
    new ResizeObserver(() => this.resize()).observe(this.plot);
    onThemeChange(() => this.uplot && this.uplot.redraw(false));
    charts.push(this);
  }

  update(view, snapshot) {
    this.view = view;
    this.series = this.definition.series(view, snapshot);
    const keys = this.series.map((each) => each.label).join('|');
    if (keys !== this.keys || !this.uplot) {
      this.keys = keys;
      this.build();
    }
    this.uplot.setData(this.data(), false);
    this.uplot.setScale('x', {min: view.from, max: view.to});
    this.describe();
    this.showLegend(this.uplot.cursor.idx);
  }

  data() {
    return [this.view.times, ...this.series.map((each) => each.values)];
  }

  build() {
    if (this.uplot) {
      this.uplot.destroy();
    }
    this.buildLegend();
    this.uplot = new globalThis.uPlot(this.options(), this.data(), this.plot);
  }

  options() {
    const definition = this.definition;
    return {
      width: Math.max(this.plot.clientWidth, 200),
      height: definition.height || HEIGHT,
      padding: [8, 6, 0, 0],
      legend: {show: false},
      cursor: {
        sync: {key: SYNC, setSeries: false},
        drag: {x: false, y: false},
        focus: {prox: -1},
        points: {size: 6, width: 1.5, stroke: (u, i) => color(this.series[i - 1].color), fill: () => palette.panel},
      },
      scales: {x: {time: true, auto: false}, y: this.yScale()},
      axes: [this.axis({space: 70, values: timeLabels, grid: false}), this.yAxis()],
      series: [{}, ...this.series.map((each) => this.line(each))],
      hooks: {
        setCursor: [() => this.onCursor()],
        drawAxes: [(u) => this.drawRestarts(u)],
        ...(definition.hooks && definition.hooks(this)),
      },
    };
  }

  yScale() {
    const definition = this.definition;
    if (definition.log) {
      return {distr: 3, log: 10, range: (u, min, max) => logRange(min, max, definition.log)};
    }
    return {range: (u, min, max) => [0, Math.max((max || 0) * 1.12, definition.max || 1)]};
  }

  yAxis() {
    const axis = this.axis({size: 62, space: 32, values: (u, ticks) => axisLabels(ticks, this.definition.kind), grid: true});
    if (this.definition.log) {
      axis.splits = (u, i, min, max) => decades(min, max);
    }
    return axis;
  }

  axis({size, space, values, grid}) {
    return {
      size: size || 24,
      gap: 4,
      space,
      values,
      font: FONT,
      stroke: () => palette.muted,
      grid: {show: grid, stroke: () => palette.grid, width: 1},
      ticks: {show: !grid, stroke: () => palette.grid, width: 1, size: 4},
    };
  }

  line(each) {
    return {
      label: each.label,
      stroke: () => color(each.color),
      width: each.width || 1.6,
      dash: each.dash,
      show: !this.hidden.has(each.label),
      fill: each.fill ? () => color(each.color) + '26' : undefined,
      points: {show: (u, i) => isSparse(u.data[i])},
      spanGaps: false,
    };
  }

  buildLegend() {
    this.values = this.series.map(() => element('span', {class: 'value'}));
    this.legend.replaceChildren(...this.series.map((each, i) => this.legendItem(each, i)));
  }

  legendItem(each, i) {
    const marker = element('span', {class: `marker ${each.color} ${each.dash ? 'dash' : ''}`, 'aria-hidden': 'true'});
    const button = element(
      'button',
      {type: 'button', 'aria-pressed': String(!this.hidden.has(each.label)), title: 'Show or hide ' + each.label},
      marker,
      each.label,
      this.values[i],
    );
    button.addEventListener('click', () => this.toggle(each.label, i, button));
    return element('li', {}, button);
  }

  toggle(label, i, button) {
    const show = this.hidden.delete(label);
    if (!show) {
      this.hidden.add(label);
    }
    button.setAttribute('aria-pressed', String(show));
    this.uplot.setSeries(i + 1, {show});
  }

  showLegend(at) {
    this.series.forEach((each, i) => {
      this.values[i].textContent = byKind(
        at === null || at === undefined ? latest(each.values) : each.values[at],
        this.definition.kind,
      );
    });
  }

  onCursor() {
    const u = this.uplot;
    if (!u) {
      return;
    }
    const at = u.cursor.left >= 0 ? u.cursor.idx : null;
    this.showLegend(at);
    const own = this.plot.matches(':hover') || this.figure === document.activeElement;
    if (at === null || at === undefined || !own) {
      this.tip.hidden = true;
      return;
    }
    this.showTip(at);
  }

  showTip(at) {
    this.tip.replaceChildren(element('strong', {}, clock(this.view.times[at])), ...this.tipRows(at));
    this.tip.hidden = false;
    const left = this.uplot.cursor.left + this.uplot.over.offsetLeft;
    const room = this.plot.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = Math.max(0, left + 14 > room ? left - this.tip.offsetWidth - 14 : left + 14) + 'px';
    this.tip.style.top = '6px';
  }

  tipRows(at) {
    return this.series
      .filter((each) => !this.hidden.has(each.label))
      .map((each) =>
        element(
          'div',
          {class: 'row'},
          element('span', {class: `marker ${each.color} ${each.dash ? 'dash' : ''}`}),
          element('span', {}, each.label),
          element('span', {class: 'value'}, byKind(each.values[at], this.definition.kind)),
        ),
      );
  }

  // What somebody hears who does not see the picture, and what tests look at.
  describe() {
    const shown = this.series.map((each) => `${each.label} ${byKind(latest(each.values), this.definition.kind)}`);
    const points = this.series.reduce(
      (total, each) => total + each.values.filter((value) => value !== null && value !== undefined).length,
      0,
    );
    this.figure.setAttribute(
      'aria-label',
      `${this.definition.title}. Now: ${shown.join(', ') || UNKNOWN}. Arrow keys read the chart.`,
    );
    this.figure.dataset.points = points;
    this.figure.dataset.nonzero = this.series.reduce((total, each) => total + each.values.filter((value) => value > 0).length, 0);
    this.figure.dataset.series = this.series.length;
    this.empty.hidden = points > 0;
  }

  drawRestarts(u) {
    const context = u.ctx;
    context.save();
    context.strokeStyle = palette.warn;
    context.setLineDash([4, 4]);
    for (const time of this.view ? this.view.store.restarts : []) {
      const x = Math.round(u.valToPos(time, 'x', true));
      if (x >= u.bbox.left && x <= u.bbox.left + u.bbox.width) {
        context.beginPath();
        context.moveTo(x, u.bbox.top);
        context.lineTo(x, u.bbox.top + u.bbox.height);
        context.stroke();
      }
    }
    context.restore();
  }

  onKey(event) {
    if (event.target !== this.figure || !this.view || this.view.length === 0) {
      return;
    }
    const last = this.view.length - 1;
    const at = this.uplot.cursor.left >= 0 && this.uplot.cursor.idx !== null ? this.uplot.cursor.idx : last + 1;
    const step = event.shiftKey ? 10 : 1;
    const to = {ArrowLeft: at - step, ArrowRight: at + step, Home: 0, End: last}[event.key];
    if (to === undefined) {
      if (event.key === 'Escape') {
        this.leave();
      }
      return;
    }
    event.preventDefault();
    this.read(Math.max(0, Math.min(last, to)));
  }

  read(at) {
    const u = this.uplot;
    u.setCursor({left: u.valToPos(this.view.times[at], 'x'), top: u.over.clientHeight / 2});
    clearTimeout(readingTimer);
    readingTimer = setTimeout(() => {
      document.getElementById('reading').textContent = clock(this.view.times[at]) + ': ' + this.readings(at).join(', ');
    }, 250);
  }

  readings(at) {
    return this.series.map((each) => `${each.label} ${byKind(each.values[at], this.definition.kind)}`);
  }

  leave() {
    this.tip.hidden = true;
    if (this.uplot) {
      this.uplot.setCursor({left: -10, top: -10});
    }
  }

  resize() {
    if (this.uplot && this.plot.clientWidth > 0) {
      this.uplot.setSize({width: this.plot.clientWidth, height: this.definition.height || HEIGHT});
    }
  }
}

// A label that would reach beyond the edge is left out.
function timeLabels(u, ticks) {
  const right = u.bbox.width / devicePixelRatio - 26;
  return ticks.map((tick) => (u.valToPos(tick, 'x') > right ? null : clock(tick)));
}

export function color(name) {
  return palette[name] || name;
}

// A single sample between gaps would be no line at all.
function isSparse(values) {
  return values.filter((value) => value !== null && value !== undefined).length < 3;
}

function decades(min, max) {
  const first = Math.ceil(Math.log10(min) - 1e-9);
  const last = Math.floor(Math.log10(max) + 1e-9);
  return Array.from({length: Math.max(0, last - first + 1)}, (_, i) => 10 ** (first + i));
}

// Whole decades, at least `floor` of them apart.
function logRange(min, max, floor) {
  if (min === null || !(min > 0)) {
    return floor;
  }
  const low = 10 ** Math.floor(Math.log10(min));
  const high = 10 ** Math.ceil(Math.log10(max * 1.0001));
  return [low, Math.max(high, low * 10)];
}
