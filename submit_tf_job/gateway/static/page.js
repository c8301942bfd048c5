// Jobs of a cluster, live, by the gateway's own /v1. Whatever comes from there becomes text (textContent), never markup.
"use strict";

const LIST_EVERY_MS = 5000, DETAIL_EVERY_MS = 10000, WAITING_EVERY_MS = 5000, RETRY_MS = 3000, LINES = 500;
const FINAL = new Set(["SUCCEEDED", "FAILED", "STOPPED", "UNKNOWN"]);
const at = (id) => document.getElementById(id);
let view = new AbortController();  // ends with what is shown now

// --- asking ---

class Refusal extends Error {
  constructor(status, problem) {
    super(problem.hint ? `${problem.detail} (${problem.hint})` : problem.detail);
    this.status = status;
  }
}

async function ask(path, signal, headers = {}) {
  const token = sessionStorage.getItem("token");
  const answer = await fetch(path, { signal, headers: { ...headers, ...(token && { Authorization: `Bearer ${token}` }) }, cache: "no-store" });
  if (answer.ok || answer.status === 304) return answer;
  let problem = { detail: `the gateway answered ${answer.status}` };
  try { problem = await answer.json(); } catch { /* not the gateway's own words */ }
  throw new Refusal(answer.status, problem);
}

const json = async (path, signal) => (await ask(path, signal)).json();

async function* pieces(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    yield value;
  }
}

async function* events(path, signal) {  // EventSource sends no token
  let rest = "";
  for await (const piece of pieces(await ask(path, signal, { Accept: "text/event-stream" }))) {
    const blocks = (rest + piece).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").filter((line) => !line.startsWith(":")).map((line) => {
        const colon = line.indexOf(": ");
        return [line.slice(0, colon), line.slice(colon + 2)];
      }));
      if (fields.data) yield { event: fields.event, data: JSON.parse(fields.data) };
    }
  }
}

const pause = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
});

// Do something again and again until it returns true or another page is shown; say what is wrong meanwhile.
async function insist(what, work, everyMs, signal) {
  while (!signal.aborted) {
    try {
      if (await work()) return;
      if (!signal.aborted) trouble("", what);
      await pause(everyMs, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) { enter(); return; }
      trouble(error instanceof Refusal ? error.message : "the gateway does not answer; trying again", what);
      if (error.status >= 400 && error.status < 500 && error.status !== 429) return;
      await pause(RETRY_MS, signal);
    }
    while (document.hidden && !signal.aborted) await pause(500, signal);
  }
}

// --- drawing ---

function el(tag, text, options = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== null && text !== undefined) made.textContent = String(text);
  for (const [name, value] of Object.entries(options)) if (value !== null) made.setAttribute(name, value);
  made.append(...children.filter(Boolean));
  return made;
}

const card = (title, ...children) => el("section", null, { class: "card" }, title && el("h2", title), ...children);
const state = (word) => el("span", word, { class: `state ${/^[A-Z]+$/.test(word) ? word : ""}` });
const numeric = (value) => typeof value === "number";

function table(heads, rows) {
  const line = (cells, tag) => el("tr", null, {}, ...cells.map((cell) => el(tag, cell ?? "", { class: numeric(cell) ? "number" : null })));
  const head = el("tr", null, {}, ...heads.map((name, column) => el("th", name, { class: rows.length && numeric(rows[0][column]) ? "number" : null })));
  return el("div", null, { class: "wide" }, el("table", null, {}, el("thead", null, {}, head), el("tbody", null, {}, ...rows.map((row) => line(row, "td")))));
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  if (first < 0) return "0 s";
  const [size, unit] = parts[first], next = parts[first + 1];
  const rest = next ? Math.floor((seconds % size) / next[0]) : 0;
  return `${Math.floor(seconds / size)}\u00a0${unit}${rest ? ` ${rest}\u00a0${next[1]}` : ""}`;
}

const local = (instant) => (instant ? new Date(instant).toLocaleString() : "");

const troubles = new Map();  // by operation

function trouble(sentence, what = "") {
  if (sentence) troubles.set(what, sentence);
  else if (what) troubles.delete(what);
  else troubles.clear();
  at("trouble").textContent = [...new Set(troubles.values())].join("; ");
  at("trouble").hidden = !troubles.size;
}

function show(section) {
  for (const name of ["enter", "list", "job"]) at(name).hidden = name !== section;
  at("leave").hidden = !sessionStorage.getItem("token");
}

function enter() {
  view.abort();
  trouble(sessionStorage.getItem("token") ? "This token is unknown or was revoked. Ask the operator of this gateway for a new one." : "");
  sessionStorage.removeItem("token");
  at("connection").textContent = "";
  document.title = "Token";
  show("enter");
  at("token").focus();
}

// --- the list ---

function listed(job, caller) {
  const facts = [job.user, job.queue, local(job.submitted_at), duration(job.elapsed_s), job.containers && `${job.containers} containers`];
  const own = job.user === caller;  // the gateway answers 404 for jobs of other users
  const row = el(own ? "a" : "div", null, { href: own ? `#/job/${encodeURIComponent(job.application_id)}` : null },
    el("span", job.name, { class: "name" }), state(job.state), el("span", facts.filter(Boolean).join(" · "), { class: "quiet" }));
  return el("li", null, {}, row);
}

function list(signal) {
  document.title = "Jobs";
  show("list");
  let pages = 1;
  at("more").onclick = () => { pages += 1; draw().catch(() => {}); };
  async function draw() {
    const wanted = new URLSearchParams({ limit: "50" });
    if (at("state").value) wanted.set("state", at("state").value);
    if (at("everybody").checked) wanted.set("user", "*");
    const jobs = [];
    let cursor = "", caller = "";
    for (let page = 0; page < pages && cursor !== null; page += 1) {
      if (cursor) wanted.set("cursor", cursor);
      const found = await json(`/v1/jobs?${wanted}`, signal);
      jobs.push(...found.jobs);
      cursor = found.next_cursor;
      caller = found.caller;
    }
    if (signal.aborted) return;
    show("list");
    at("jobs").replaceChildren(...(jobs.length ? jobs.map((job) => listed(job, caller)) : [el("li", "No jobs.", { class: "none" })]));
    at("more").hidden = cursor === null;
    at("connection").textContent = `as of ${new Date().toLocaleTimeString()}`;
  }
  at("state").onchange = at("everybody").onchange = () => { pages = 1; draw().catch(() => {}); };
  insist("list", draw, LIST_EVERY_MS, signal);
}

// --- one job ---

function whyCard(job) {
  const cause = job.root_cause, failure = job.failure;
  const rows = [];
  if (cause) {
    rows.push(el("p", cause.sentence), cause.hint && el("p", cause.hint, { class: "quiet" }));
    rows.push(cause.task && el("p", [cause.task, cause.host && `on ${cause.host}`, cause.meaning].filter(Boolean).join(", "), { class: "quiet" }));
    rows.push(cause.exception && el("pre", cause.exception), cause.last_lines.length && el("pre", cause.last_lines.join("\n")));
  } else if (failure) {
    rows.push(el("p", failure.message), failure.last_lines.length && el("pre", failure.last_lines.join("\n")));
  }
  for (const item of job.pending) rows.push(el("p", item.sentence), item.hint && el("p", item.hint, { class: "quiet" }));
  if (!rows.length) return null;
  const made = card(job.pending.length ? "Why it waits" : "Why it failed", ...rows);
  made.classList.add("why");
  if (!job.pending.length) made.classList.add("failed");
  return made;
}

function progressCard(job) {
  const progress = job.progress;
  if (!progress) return null;
  const { step, total, metrics } = progress;
  const bar = numeric(step) && numeric(total) && total > 0 ? el("progress", null, { value: step, max: total, "aria-label": "progress" }) : null;
  const words = numeric(step) ? `step ${step}${numeric(total) ? ` of ${total}` : ""}` : "";
  const known = Object.entries(metrics || {}).map(([name, value]) => `${name} ${numeric(value) ? Number(value.toPrecision(4)) : value}`);
  return card("Progress", bar, el("p", [words, ...known].filter(Boolean).join("  ·  ")));
}

function retriesCard(job) {
  if (!job.retries || !job.retries.generations.length) return null;
  const rows = job.retries.generations.slice(-5).map((one) => [one.number, numeric(one.duration_s) ? `${Math.round(one.duration_s)} s` : "", one.step ?? "", one.message]);
  return card(`Retries: ${job.retries.used} of ${job.retries.max}`, table(["generation", "duration", "last step", "ended because"], rows));
}

function rolesCard(job) {
  const counts = ["wanted", "arrived", "running", "succeeded", "failed", "ended", "lost", "restarts"];
  const rows = Object.entries(job.roles).map(([role, found]) => [role, ...counts.map((name) => found[name])]);
  if (!rows.length) return null;
  const used = counts.filter((name, column) => column < 3 || rows.some((row) => row[column + 1]));
  const narrow = rows.map((row) => [row[0], ...used.map((name) => row[counts.indexOf(name) + 1])]);
  const missing = job.tasks && job.tasks.missing.length ? el("p", `missing: ${job.tasks.missing.join(", ")}`, { class: "quiet" }) : null;
  return card("Roles", table(["role", ...used], narrow), missing);
}

function tasksCard(job) {
  if (!job.task_list || !job.task_list.length) return null;
  const rows = job.task_list.slice(0, 200).map((task) => [task.task, task.state, task.host, task.restarts || "", task.status ?? ""]);
  const more = job.task_list.length - rows.length;
  return card("Tasks", table(["task", "state", "host", "restarts", "exit"], rows), more > 0 && el("p", `and ${more} more`, { class: "quiet" }));
}

function factsCard(job) {
  const rows = [["run", job.run], ["application", job.application_id], ["user", job.user], ["queue", job.queue], ["submitted", local(job.started_at)],
    ["finished", local(job.finished_at)], ["YARN", job.yarn && [job.yarn.state, job.yarn.final_status].filter((word) => word !== "UNDEFINED").join(", ")]].filter((row) => row[1]);
  rows.push(...(job.outputs || []).map((output) => [`output ${output.name}`, output.uri]));
  const links = (job.links || []).map((link) => {
    const words = `${link.task} ${link.name}  ${link.url}${link.via ? ` (from ${link.via})` : ""}`;
    const web = /^https?:\/\//.test(link.url);
    return el("p", null, {}, web ? el("a", words, { href: link.url, rel: "noopener noreferrer", target: "_blank" }) : el("span", words));
  });
  return card(null, el("dl", null, {}, ...rows.flatMap(([name, value]) => [el("dt", name), el("dd", value)])), ...links);
}

function jobCards(job) {
  const title = el("div", null, { class: "title" }, el("h1", job.name), state(job.state));
  const cause = job.root_cause, told = job.failure && job.failure.message;  // a cause says it better, in a card of its own
  const reason = !cause && job.reason && job.reason !== told && el("p", job.reason), hint = !cause && job.hint && el("p", job.hint, { class: "quiet" });
  const warnings = job.warnings.map((words) => el("p", words, { class: "quiet" }));
  return [title, (reason || hint || warnings.length) && card(null, reason, hint, ...warnings),
    whyCard(job), progressCard(job), retriesCard(job), rolesCard(job), tasksCard(job), factsCard(job)].filter(Boolean);
}

class Log {
  constructor(path, signal) {
    this.path = path;
    this.signal = signal;
    this.out = el("pre", "", { tabindex: "0", "aria-label": "log" });
    this.begun = false;
    this.lines = [];
    this.rest = "";
  }

  begin(over) {
    if (this.begun) return;
    this.begun = true;
    insist("log", async () => {
      this.lines = [];
      this.rest = "";
      try {
        const answer = await ask(`${this.path}/logs?tail=100${over ? "" : "&follow=true"}`, this.signal);
        for await (const piece of pieces(answer)) this.add(piece);
      } catch (error) {
        if (error.status !== 404) throw error;
        this.add(`${error.message}\n`);  // there is no log: no trouble of the page
      }
      return true;
    }, RETRY_MS, this.signal);
  }

  add(piece) {
    const found = (this.rest + piece).split("\n");
    this.rest = found.pop();
    this.lines.push(...found);
    this.lines.splice(0, this.lines.length - LINES);
    const below = this.out.scrollHeight - this.out.scrollTop - this.out.clientHeight < 40;
    this.out.textContent = this.lines.join("\n");
    if (below) this.out.scrollTop = this.out.scrollHeight;
  }
}

function job(name, signal) {
  const path = `/v1/jobs/${encodeURIComponent(name)}`;
  const cards = el("div"), log = new Log(path, signal);
  document.title = name;
  at("job").replaceChildren(cards, card("Log", log.out));
  show("job");
  let now = null, more = {}, asked = "", askedAt = 0;

  function draw() {
    if (signal.aborted || !now) return;
    document.title = `${now.state.toLowerCase()}: ${now.name}`;
    cards.replaceChildren(...jobCards({ ...more, ...now, pending: FINAL.has(now.state) ? [] : more.pending || now.pending, root_cause: now.root_cause || more.root_cause || null }));
  }

  insist("job", async () => {
    for await (const { event, data } of events(`${path}/events`, signal)) {
      if (event === "problem") throw new Refusal(503, data);
      now = data;
      trouble("", "job");
      at("connection").textContent = FINAL.has(now.state) ? "" : "live";
      draw();
      if (now.state !== "PENDING") log.begin(FINAL.has(now.state));
      if (FINAL.has(now.state)) return true;
    }
    at("connection").textContent = "not connected";
    return false;
  }, RETRY_MS, signal);

  insist("detail", async () => {  // what costs more requests: why, and each task
    const everyMs = now && ["PENDING", "STARTING"].includes(now.state) ? WAITING_EVERY_MS : DETAIL_EVERY_MS;
    if (!now || (now.state === asked && Date.now() - askedAt < everyMs)) return false;
    const state = now.state;
    more = await json(`${path}/description`, signal);
    [asked, askedAt] = [state, Date.now()];
    draw();
    return FINAL.has(state);
  }, 1000, signal);
}

// --- pages ---

function route() {
  view.abort();
  view = new AbortController();
  trouble("");
  at("connection").textContent = "";
  const found = /^#\/job\/([^/]+)$/.exec(location.hash);
  if (found) job(decodeURIComponent(found[1]), view.signal);
  else list(view.signal);
}

at("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", at("token").value.trim());
  at("token").value = "";
  route();
});
at("leave").addEventListener("click", () => { sessionStorage.removeItem("token"); enter(); });
addEventListener("hashchange", route);
route();
