// Curves of metrics and of use, of up to six runs over one another (uPlot), each with a table of its values.
import { amount, duration, el, numeric, short, table } from "./drawing.js";

const HEIGHT = 200, DASHES = [[], [8, 4], [2, 3], [12, 4, 2, 4], [5, 5], [1, 4]];
export const MOST_RUNS = DASHES.length;
const ROWS = 240;
const TIMES = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800, 2592000];
const SIZES = Array.from({ length: 50 }, (_, power) => 2 ** power);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = matchMedia("(prefers-color-scheme: dark)");

// [x, value] by rising x; where all tasks started again, a step's later value counts.
function placed(series, byStep) {
  const found = new Map();
  for (const [time, step, value] of series.points) found.set(byStep ? step : time, value);
  return [...found].sort((one, other) => one[0] - other[0]);
}

export const notFinite = (series) => series.points.find(([, , value]) => !numeric(value));

class Curve {
  constructor(name) {
    this.name = name;
    this.shown = "";
    this.plot = null;
    this.lines = [];
    this.caption = el("figcaption");
    this.canvas = el("div", null, { role: "img" });
    this.values = el("div");
    this.figure = el("figure", null, { class: "curve" }, this.caption, this.canvas, el("details", null, {}, el("summary", `Values of ${name}`), this.values));
    this.redraw = () => { this.shown = ""; this.draw(this.lines); };
    this.observer = new ResizeObserver(() => this.plot && this.plot.setSize({ width: this.canvas.clientWidth, height: HEIGHT }));
    this.observer.observe(this.canvas);
    dark.addEventListener("change", this.redraw);
  }

  end() {
    this.observer.disconnect();
    dark.removeEventListener("change", this.redraw);
    if (this.plot) this.plot.destroy();
    this.figure.remove();
  }

  // Lines are {label, series}; the same ones again only move on.
  draw(lines) {
    this.lines = lines;
    const byStep = lines.every(({ series }) => series.points.every(([, step]) => numeric(step)));
    const unit = lines[0].series.unit, what = byStep ? lines[0].series.step_unit || "step" : "time";
    const tables = lines.map(({ series }) => placed(series, byStep));
    const data = uPlot.join(tables.map((rows) => [rows.map(([x]) => x), rows.map(([, value]) => (numeric(value) ? value : null))]));
    const key = JSON.stringify([byStep, unit, lines.map(({ label }) => label)]);
    if (this.plot && key === this.shown) this.plot.setData(data);
    else this.begin(lines, data, byStep, unit);
    this.shown = key;
    const ends = lines.map(({ label, series }, index) => this.words(label, series, tables[index].at(-1), what, unit, byStep));
    this.caption.replaceChildren(el("strong", this.name), lines.length > 1 ? "" : el("span", ends[0], { class: "quiet" }));
    this.canvas.setAttribute("aria-label", `Curve of ${this.name}. ${ends.join("; ")}. A table with its values follows.`);
    const xs = [...new Set(tables.flatMap((rows) => rows.map(([x]) => x)))].sort((one, other) => one - other);
    const known = tables.map((rows) => new Map(rows));
    const rows = xs.slice(-ROWS).map((x) => [byStep ? x : duration(x) || "0 s", ...known.map((values) => (values.has(x) ? amount(values.get(x), unit) : ""))]);
    this.values.replaceChildren(table([what, ...lines.map(({ label }) => label)], rows, `Values of ${this.name}`));
  }

  words(label, series, last, what, unit, byStep) {
    if (!last) return `${label} has no value`;
    const range = series.least && series.most ? `, least ${amount(series.least[2], unit)}, most ${amount(series.most[2], unit)}` : "";
    const own = this.lines.length > 1 ? `${label}: ` : "";
    return `${own}${amount(last[1], unit)} at ${byStep ? `${what} ${short(last[0])}` : duration(last[0]) || "0 s"}${range}`;
  }

  begin(lines, data, byStep, unit) {
    if (this.plot) this.plot.destroy();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const times = (_plot, values) => values.map((value) => duration(value) || "0");
    const amounts = (_plot, values) => values.map((value) => amount(value, unit));
    const single = data[0].length < 2;
    this.plot = new uPlot({
      width: this.canvas.clientWidth || 300, height: HEIGHT, legend: { show: lines.length > 1 }, cursor: { drag: { x: true, y: false } },
      scales: { x: { time: false } },
      axes: [{ ...axis, ...(byStep ? {} : { values: times, incrs: TIMES }) }, { ...axis, size: 72, ...(unit ? { values: amounts } : {}), ...(unit === "bytes" ? { incrs: SIZES } : {}) }],
      series: [{ label: byStep ? "step" : "time", value: (_plot, x) => (x === null ? "" : byStep ? short(x) : duration(x)) }, ...lines.map(({ label }, index) => ({
        label, stroke: colour(`--curve-${index + 1}`), width: 2, dash: DASHES[index], spanGaps: false, points: { show: single },
        value: (_plot, value) => (value === null ? "" : amount(value, unit)),
      }))],
    }, data, this.canvas);
  }
}

// All curves of a page by name, in the order of the first run that has each.
export class Curves {
  constructor() {
    this.element = el("div", null, { class: "curves" });
    this.made = new Map();
  }

  // Runs are [{label, usage}]; a curve that is no longer there goes.
  draw(runs) {
    const found = new Map();
    for (const { label, usage } of runs) {
      for (const series of usage ? usage.series : []) {
        if (!series.points.length) continue;
        const name = series.kind === "metric" ? series.name : `${series.name.replace("_", " ").replace(/^[cg]pu/, (word) => word.toUpperCase())} of ${series.role}`;
        if (!found.has(name)) found.set(name, []);
        if (found.get(name).length < MOST_RUNS) found.get(name).push({ label: runs.length > 1 ? label : name, series });
      }
    }
    for (const [name, curve] of this.made) if (!found.has(name)) { curve.end(); this.made.delete(name); }
    for (const [name, lines] of found) {
      if (!this.made.has(name)) {
        this.made.set(name, new Curve(name));
        this.element.append(this.made.get(name).figure);
      }
      this.made.get(name).draw(lines);
    }
    return found.size;
  }

  end() {
    for (const curve of this.made.values()) curve.end();
    this.made.clear();
  }
}
