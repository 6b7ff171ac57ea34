// Figures as people read them: three digits, one unit, never a value that is not known.

export const UNKNOWN = '–';
const THIN = '\u202f'; // between a figure and its unit

const PREFIXES = [
  [1e12, 'T'],
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
  [1, ''],
];
const TIMES = [
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'µs'],
  [1, 'ns'],
];

function isKnown(value) {
  return value !== null && value !== undefined && Number.isFinite(value);
}

// Three significant digits, without an exponent.
function digits(value) {
  const size = Math.abs(value);
  return size >= 100 || value === 0 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function scaled(value, steps) {
  const size = Math.abs(value);
  return steps.find(([step]) => size >= step * 0.9995) || steps[steps.length - 1];
}

// {figure, unit}: "1.53" and "MRPC/s" are set in different sizes.
export function rateParts(value, unit) {
  if (!isKnown(value)) {
    return {figure: UNKNOWN, unit};
  }
  const [step, prefix] = scaled(value, PREFIXES);
  const small = step === 1 && Number.isInteger(value);
  return {figure: small ? String(value) : digits(value / step), unit: prefix === '' ? unit : joinPrefix(prefix, unit)};
}

// "k" before "b/s" is kb/s; before "RPC/s" a blank keeps it readable.
function joinPrefix(prefix, unit) {
  return unit.startsWith('b/s') || unit === 'B' ? prefix + unit : prefix + THIN + unit;
}

export function rate(value, unit) {
  const parts = rateParts(value, unit);
  return parts.figure === UNKNOWN ? UNKNOWN : parts.figure + THIN + parts.unit;
}

export function timeParts(ns) {
  if (!isKnown(ns)) {
    return {figure: UNKNOWN, unit: 'µs'};
  }
  const [step, unit] = ns === 0 ? [1e3, 'µs'] : scaled(ns, TIMES);
  return {figure: digits(ns / step), unit};
}

export function time(ns) {
  const parts = timeParts(ns);
  return parts.figure === UNKNOWN ? UNKNOWN : parts.figure + THIN + parts.unit;
}

// Of a call: what is shorter than this is not told apart (base/histogram.h).
export const SHORTEST_NS = 1024;
export function latencyParts(ns) {
  return isKnown(ns) && ns <= SHORTEST_NS ? {figure: '≤ 1', unit: 'µs'} : timeParts(ns);
}
export function latency(ns) {
  const parts = latencyParts(ns);
  return parts.figure === UNKNOWN ? UNKNOWN : parts.figure + THIN + parts.unit;
}

export function count(value) {
  return isKnown(value) ? Math.round(value).toLocaleString('en-GB').replaceAll(',', THIN) : UNKNOWN;
}

export function percent(value) {
  return isKnown(value) ? digits(value * 100) + THIN + '%' : UNKNOWN;
}

export function age(seconds) {
  if (!isKnown(seconds)) {
    return UNKNOWN;
  }
  const s = Math.floor(seconds);
  const parts = [
    [86400, 'd'],
    [3600, 'h'],
    [60, 'min'],
    [1, 's'],
  ];
  const at = Math.max(
    0,
    parts.findIndex(([size]) => s >= size),
  );
  const first = s >= 1 ? at : 3;
  const text = [];
  let rest = s;
  for (const [size, unit] of parts.slice(first, first + 2)) {
    text.push(Math.floor(rest / size) + THIN + unit);
    rest %= size;
  }
  return text.join(' ');
}

export function clock(unixSeconds) {
  return new Date(unixSeconds * 1000).toLocaleTimeString('en-GB');
}

export function qpn(value) {
  return '0x' + value.toString(16).padStart(6, '0');
}

// One prefix for all ticks of an axis, so that they can be compared at a glance.
export function axisLabels(ticks, kind) {
  const most = Math.max(...ticks.filter(isKnown).map(Math.abs), 0);
  const known = ticks.map((tick) => (tick === null ? '' : tick));
  if (kind === 'percent') {
    return known.map((tick) => (tick === '' ? '' : Math.round(tick * 100) + THIN + '%'));
  }
  if (kind === 'time') {
    return known.map((tick) => (tick === '' ? '' : axisTime(tick)));
  }
  const [step, prefix] = scaled(most, PREFIXES);
  const unit = kind === 'bits' ? joinPrefix(prefix, 'b/s') : prefix;
  return known.map((tick) => (tick === '' ? '' : tick === 0 ? '0' : trimZeros(tick / step) + (unit ? THIN + unit : '')));
}

function axisTime(ns) {
  const [step, unit] = scaled(ns, TIMES);
  return trimZeros(ns / step) + THIN + unit;
}

function trimZeros(value) {
  return String(Number(value.toPrecision(3)));
}

// The same figure as text, by what kind of axis it stands at.
export function byKind(value, kind) {
  switch (kind) {
    case 'bits':
      return rate(value, 'b/s');
    case 'time':
      return latency(value);
    case 'percent':
      return percent(value);
    case 'count':
      return count(value);
    default:
      return rate(value, kind);
  }
}
