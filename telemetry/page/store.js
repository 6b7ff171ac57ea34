// The last fifteen minutes in this browser: what /api/history says, column by column, and figures made from it.
//
// Counters arrive as what they grew by within a sample, gauges as they were. A start of the gateway in between leaves one sample
// without values, at which lines break.

const KEPT = 960;

export class Store {
  constructor() {
    this.boot = null;
    this.next = 0;
    this.capacity = 900;
    this.times = []; // unix time, s
    this.intervals = []; // s; null where the gateway was started anew
    this.durations = []; // of calls to backends: [bucket, count, ...]
    this.durationsBuiltin = []; // of those to programs that are built in
    this.bucketNs = [];
    this.columns = new Map();
    this.restarts = []; // unix time, s
  }

  // False: this is another run of the gateway than before, and nothing was taken; ask again from the beginning.
  add(history) {
    if (this.boot !== null && history.boot !== this.boot) {
      this.breakAt(Number(history.boot) / 1000);
      this.restarts.push(this.times[this.times.length - 1]);
      this.boot = null;
      this.next = 0;
      return false;
    }
    this.boot = history.boot;
    this.capacity = history.capacity;
    this.bucketNs = history.bucket_ns || this.bucketNs;
    const last = this.lastTime();
    // A sample that is there already, or of a clock that was set back over a start.
    const from = Math.max(0, this.next - history.first);
    for (let i = from; i < history.time_ms.length; i++) {
      if (history.time_ms[i] / 1000 <= last && i === from && this.times.length) {
        this.forget();
      }
      if (last > 0 && i === from && history.time_ms[i] - history.interval_ms[i] > last * 1000 + 2000) {
        this.breakAt(last + 0.001); // this browser slept longer than the gateway remembers
      }
      this.push(history, i);
    }
    this.next = history.next;
    this.trim();
    return true;
  }

  lastTime() {
    return this.times.length ? this.times[this.times.length - 1] : 0;
  }

  push(history, i) {
    const before = this.times.length;
    this.times.push(history.time_ms[i] / 1000);
    this.intervals.push(Math.max(history.interval_ms[i], 1) / 1000);
    this.durations.push(history.durations[i]);
    this.durationsBuiltin.push(history.durations_builtin[i]);
    for (const name of Object.keys(history.values)) {
      if (!this.columns.has(name)) {
        this.columns.set(name, new Array(before).fill(0));
      }
    }
    for (const [name, column] of this.columns) {
      const values = history.values[name];
      column.push(values ? values[i] : 0);
    }
  }

  breakAt(time) {
    const at = Math.max(time, this.lastTime() + 0.001);
    this.times.push(at);
    this.intervals.push(null);
    this.durations.push(null);
    this.durationsBuiltin.push(null);
    for (const column of this.columns.values()) {
      column.push(null);
    }
  }

  forget() {
    this.times.length = 0;
    this.intervals.length = 0;
    this.durations.length = 0;
    this.durationsBuiltin.length = 0;
    this.columns.clear();
    this.restarts.length = 0;
  }

  trim() {
    const extra = this.times.length - KEPT;
    if (extra > 0) {
      for (const column of [this.times, this.intervals, this.durations, this.durationsBuiltin, ...this.columns.values()]) {
        column.splice(0, extra);
      }
      this.restarts = this.restarts.filter((time) => time >= this.times[0]);
    }
  }

  // What lies between two times.
  view(from, to) {
    let first = this.times.findIndex((time) => time >= from);
    first = first < 0 ? this.times.length : first;
    let end = this.times.length;
    while (end > first && this.times[end - 1] > to) {
      end--;
    }
    return new View(this, first, end, from, to);
  }
}

export class View {
  constructor(store, first, end, from, to) {
    this.store = store;
    this.first = first;
    this.end = end;
    this.from = from;
    this.to = to;
    this.times = store.times.slice(first, end);
    this.intervals = store.intervals.slice(first, end);
    this.percentileCache = new Map();
  }

  get length() {
    return this.times.length;
  }

  gauge(name) {
    const column = this.store.columns.get(name);
    return column ? column.slice(this.first, this.end) : this.intervals.map((interval) => (interval === null ? null : 0));
  }

  // Per second.
  rate(name, factor = 1) {
    return this.gauge(name).map((grown, i) => (this.intervals[i] === null ? null : (grown * factor) / this.intervals[i]));
  }

  names(prefix) {
    return [...this.store.columns.keys()].filter((name) => name.startsWith(prefix));
  }

  sumRates(names, factor = 1) {
    const total = this.intervals.map((interval) => (interval === null ? null : 0));
    for (const name of names) {
      this.rate(name, factor).forEach((value, i) => {
        if (total[i] !== null) {
          total[i] += value;
        }
      });
    }
    return total;
  }

  // What a counter grew by over the whole view.
  grown(name) {
    return this.gauge(name).reduce((total, value) => total + (value || 0), 0);
  }

  seconds() {
    return this.intervals.reduce((total, interval) => total + (interval || 0), 0);
  }

  // Of calls, ns; null in a second without any.
  percentile(fraction) {
    if (!this.percentileCache.has(fraction)) {
      this.percentileCache.set(
        fraction,
        this.bucketLists().map((buckets) => percentile(buckets, this.store.bucketNs, fraction)),
      );
    }
    return this.percentileCache.get(fraction);
  }

  // Over all calls of the view.
  totalPercentile(fraction) {
    const total = new Map();
    for (const buckets of this.bucketLists()) {
      for (let i = 0; buckets && i < buckets.length; i += 2) {
        total.set(buckets[i], (total.get(buckets[i]) || 0) + buckets[i + 1]);
      }
    }
    const list = [...total.entries()].sort((a, b) => a[0] - b[0]).flat();
    return percentile(list, this.store.bucketNs, fraction);
  }

  // Of calls to backends. Built-in programs answer without network and disk, and would hide a slow backend among themselves;
  // they stand here when nothing else was called.
  bucketLists() {
    return this.onlyBuiltin() ? this.builtinLists() : this.backendLists();
  }

  backendLists() {
    return this.store.durations.slice(this.first, this.end);
  }

  builtinLists() {
    return this.store.durationsBuiltin.slice(this.first, this.end);
  }

  onlyBuiltin() {
    const any = (lists) => lists.some((buckets) => buckets && buckets.length > 0);
    return !any(this.backendLists()) && any(this.builtinLists());
  }

  // As percentile(), of built-in programs beside backends; null in every second when they are what percentile() is of.
  builtinPercentile(fraction) {
    const apart = !this.onlyBuiltin();
    return this.builtinLists().map((buckets) => (apart ? percentile(buckets, this.store.bucketNs, fraction) : null));
  }
}

// The duration that `fraction` of the calls do not exceed, interpolated within its bucket.
export function percentile(buckets, bucketNs, fraction) {
  if (!buckets || buckets.length === 0) {
    return null;
  }
  let total = 0;
  for (let i = 1; i < buckets.length; i += 2) {
    total += buckets[i];
  }
  const wanted = fraction * total;
  // Below the first bound nothing is told apart.
  if (buckets[0] === 0 && buckets[1] >= wanted) {
    return bucketNs[1];
  }
  let before = 0;
  for (let i = 0; i < buckets.length; i += 2) {
    const here = buckets[i + 1];
    if (before + here >= wanted) {
      const lower = bucketNs[buckets[i]];
      const upper = upperNs(bucketNs, buckets[i]);
      return lower + Math.max(0, (wanted - before) / here) * (upper - lower);
    }
    before += here;
  }
  return null;
}

export function upperNs(bucketNs, index) {
  return index + 1 < bucketNs.length ? bucketNs[index + 1] : bucketNs[index] * 2;
}

// What is known of now: null when the last second told nothing, whatever was before.
export function latest(values) {
  return values.length ? values[values.length - 1] : null;
}
