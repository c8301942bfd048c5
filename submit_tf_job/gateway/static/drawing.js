// Elements and words. Whatever comes from a job or a cluster becomes text (textContent), never markup.
const SVG = "http://www.w3.org/2000/svg";
const SPARK = [120, 28];

export function el(tag, text, options = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== null && text !== undefined) made.textContent = String(text);
  for (const [name, value] of Object.entries(options)) if (value !== null) made.setAttribute(name, value);
  made.append(...children.filter(Boolean));
  return made;
}

export const numeric = (value) => typeof value === "number";
export const card = (title, ...children) => el("section", null, { class: "card" }, title && el("h2", title), ...children);
export const state = (word) => el("span", word, { class: `state ${/^[A-Z]+$/.test(word) ? word : ""}` });
const TWICE_MS = [-3600e3, -1800e3, 1800e3, 3600e3];

// In the hour that occurs twice, because summer time ends, the zone is shown, too.
export function local(instant) {
  if (!instant) return "";
  const moment = new Date(instant), words = moment.toLocaleString();
  if (!TWICE_MS.some((ms) => new Date(moment.getTime() + ms).toLocaleString() === words)) return words;
  return `${moment.toLocaleDateString()}, ${moment.toLocaleTimeString([], { timeZoneName: "short" })}`;
}

export function table(heads, rows, caption = null) {
  const made = (cell, tag) => (cell instanceof Node ? el(tag, null, {}, cell) : el(tag, cell ?? "", { class: numeric(cell) ? "number" : null }));
  const head = el("tr", null, {}, ...heads.map((name, column) => el("th", name, { scope: "col", class: rows.length && numeric(rows[0][column]) ? "number" : null })));
  const body = rows.map((row) => el("tr", null, {}, ...row.map((cell) => made(cell, "td"))));
  const parts = [caption && el("caption", caption), el("thead", null, {}, head), el("tbody", null, {}, ...body)];
  return el("div", null, { class: "wide", tabindex: "0", role: "group", "aria-label": caption || heads.join(", ") }, el("table", null, {}, ...parts));
}

// Show cards in place of others; one that has not changed stays, with the focus in it.
export function swap(container, cards) {
  const before = [...container.children];
  cards.forEach((made, index) => {
    const old = before[index];
    if (!old) container.append(made);
    else if (!old.isEqualNode(made)) old.replaceWith(made);
  });
  for (const old of before.slice(cards.length)) old.remove();
}

export function duration(seconds) {
  if (!numeric(seconds) || seconds < 0) return "";  // a clock was set back
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  if (first < 0) return "0 s";
  const [size, unit] = parts[first], next = parts[first + 1];
  const rest = next ? Math.floor((seconds % size) / next[0]) : 0;
  return `${Math.floor(seconds / size)}\u00a0${unit}${rest ? ` ${rest}\u00a0${next[1]}` : ""}`;
}

export const between = (from, to) => (from && to ? duration((Date.parse(to) - Date.parse(from)) / 1000) : "");

export function short(value) {
  if (!numeric(value)) return String(value ?? "");
  return String(Math.abs(value) >= 1000 && Math.abs(value) < 1e9 ? Math.round(value) : Number(value.toPrecision(4)));
}

// An amount with its unit: bytes as GiB, a share as percent, cores as they are.
export function amount(value, unit) {
  if (!numeric(value)) return String(value ?? "");
  if (unit === "percent") return `${Math.round(value)}\u00a0%`;
  if (unit !== "bytes") return unit ? `${short(value)}\u00a0${unit}` : short(value);
  const sizes = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
  const [size, word] = sizes.find(([least]) => value >= least) || [1, "B"];
  return `${Number((value / size).toPrecision(3))}\u00a0${word}`;
}

export function progressWords(progress) {
  if (!progress) return "";
  const { step, total, unit, metrics } = progress;
  const where = numeric(step) ? `${unit || "step"} ${step}${numeric(total) ? ` of ${total}` : ""}` : "";
  const known = Object.entries(metrics || {}).map(([name, value]) => `${name} ${short(value)}`);
  return [where, ...known].filter(Boolean).join("  ·  ");
}

export function progressBar(progress) {
  if (!progress) return null;
  const { step, total, part } = progress;
  const [value, max] = numeric(part) ? [part, 1] : [step, total];
  return numeric(value) && numeric(max) && max > 0 ? el("progress", null, { value: Math.max(0, Math.min(max, value)), max, "aria-label": "progress" }) : null;
}

// A small curve beside a word; its last value is text for those who do not see it.
export function spark(name, values, unit = "") {
  const finite = values.filter((value) => numeric(value) && Number.isFinite(value));
  if (finite.length < 2) return null;
  const [width, height] = SPARK, least = Math.min(...finite), most = Math.max(...finite);
  const x = (index) => (index / (finite.length - 1)) * (width - 2) + 1;
  const y = (value) => (most === least ? height / 2 : height - 2 - ((value - least) / (most - least)) * (height - 4));
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", finite.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`).join(" "));
  const picture = document.createElementNS(SVG, "svg");
  const words = `${name} from ${amount(finite[0], unit)} to ${amount(finite.at(-1), unit)}`;
  for (const [key, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, class: "spark", role: "img", "aria-label": words })) picture.setAttribute(key, value);
  picture.append(line);
  return picture;
}
