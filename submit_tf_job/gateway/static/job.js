// One job: its state live, why, curves, timeline, use, tasks, log; and a stop with a question.
import { FINAL, Refusal, ask, events, insist, jobPath, json, perhaps, pieces, serverNow, trouble, usageOf } from "./asking.js";
import { Curves, notFinite } from "./curves.js";
import { amount, between, card, duration, el, local, numeric, progressBar, progressWords, short, state, swap, table } from "./drawing.js";

const DETAIL_EVERY_MS = 10000, WAITING_EVERY_MS = 5000, USAGE_EVERY_MS = 15000, RETRY_MS = 3000, LINES = 500, ROWS = 200;
const at = (id) => document.getElementById(id);
const web = (url) => /^https?:\/\//.test(url || "");
const link = (words, url) => el("a", words, { href: url, rel: "noopener noreferrer", target: "_blank" });

function whyCard(job) {
  const cause = job.root_cause, failure = job.failure;
  const rows = [];
  if (cause) {
    rows.push(el("p", cause.sentence), cause.hint && el("p", cause.hint, { class: "quiet" }));
    rows.push(cause.task && el("p", [cause.task, cause.host && `on ${cause.host}`, cause.meaning].filter(Boolean).join(", "), { class: "quiet" }));
    const lines = cause.last_lines.join("\n");  // which mostly end with the exception
    rows.push(cause.exception && !lines.includes(cause.exception) && el("pre", cause.exception), lines && el("pre", lines));
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

function warningsCard(warnings) {
  if (!warnings.length) return null;
  const made = card(warnings.length > 1 ? `${warnings.length} warnings` : "Warning", el("ul", null, {}, ...warnings.map((words) => el("li", words))));
  made.classList.add("why");
  return made;
}

function heldCard(job, release) {
  if (!job.held) return null;
  const { task, host, until, directory, container } = job.held;
  const button = el("button", "Release", { type: "button" });
  button.addEventListener("click", release);
  const made = card("Held", el("p", `The container of ${task} on ${host} stays until ${local(until * 1000)}.`), el("pre", directory || container), button);
  made.classList.add("why");
  return made;
}

function progressCard(job) {
  if (!job.progress) return null;
  const left = FINAL.has(job.state) || !numeric(job.progress.left_s) ? "" : `about ${duration(job.progress.left_s)} left`;
  const words = [progressWords(job.progress), left].filter(Boolean).join("  ·  ");
  return card("Progress", progressBar(job.progress), el("p", words));
}

function timelineCard(parts, held) {
  if (!parts || !parts.length) return null;
  const begins = Date.parse(parts[0].from_at), told = parts.flatMap((part) => [Date.parse(part.from_at), Date.parse(part.until_at) || 0]);
  const ends = Math.max(parts.at(-1).until_at ? 0 : serverNow(), begins + 1000, ...told);
  const rows = parts.map((part) => {
    const from = (Date.parse(part.from_at) - begins) / (ends - begins), until = ((Date.parse(part.until_at) || ends) - begins) / (ends - begins);
    const bar = el("span", null, { class: `bar ${/^[a-z]+$/.test(part.part) ? part.part : ""}` });
    bar.style.marginLeft = `${(100 * from).toFixed(2)}%`;
    bar.style.width = `${Math.max(0.5, 100 * (until - from)).toFixed(2)}%`;
    const length = part.until_at ? between(part.from_at, part.until_at) || "0 s" : "now";
    const stays = part.part === "held" && !part.until_at && held ? ` until ${local(held.until * 1000)}` : "";
    return el("li", null, {}, el("span", part.sentence + stays, { class: "what" }), el("span", length, { class: "length" }), el("span", null, { class: "track", "aria-hidden": "true" }, bar));
  });
  return card("Timeline", el("ol", null, { class: "timeline" }, ...rows));
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

function tasksCard(job, showLog) {
  if (!job.task_list || !job.task_list.length) return null;
  const log = (task) => {
    const made = el("button", task, { type: "button", class: "link", title: `log of ${task}` });
    made.addEventListener("click", () => showLog(task));
    return made;
  };
  const rows = job.task_list.slice(0, ROWS).map((task) => [log(task.task), task.state, task.host, task.restarts || "", task.status ?? ""]);
  const more = job.task_list.length - rows.length;
  return card("Tasks", table(["task", "state", "host", "restarts", "exit"], rows), more > 0 && el("p", `and ${more} more`, { class: "quiet" }));
}

function factsCard(job) {
  const rows = [["run", job.run], ["application", job.application_id], ["user", job.user], ["queue", job.queue], ["submitted", local(job.started_at)],
    ["finished", local(job.finished_at)], ["duration", between(job.started_at, job.finished_at)],
    ["YARN", job.yarn && [job.yarn.state, job.yarn.final_status].filter((word) => word !== "UNDEFINED").join(", ")]].filter((row) => row[1]);
  rows.push(...(job.outputs || []).map((output) => [`output ${output.name}`, output.uri]));
  const links = (job.links || []).map((one) => {
    const words = `${one.task} ${one.name}  ${one.url}${one.via ? ` (from ${one.via})` : ""}`;
    return el("p", null, {}, web(one.url) ? link(words, one.url) : el("span", words));
  });
  const pages = job.pages || {};
  const yarn = [["The application at the ResourceManager", pages.application], ["Logs of its ApplicationMaster", pages.am_logs]].filter((row) => web(row[1]));
  return card("Links and facts", ...links, ...yarn.map(([words, url]) => el("p", null, {}, link(words, url))), el("dl", null, {}, ...rows.flatMap(([name, value]) => [el("dt", name), el("dd", value)])));
}

function jobCards(job, showLog, release) {
  const cause = job.root_cause, told = job.failure && job.failure.message;  // a cause says it better, in a card of its own
  const reason = !cause && job.reason && job.reason !== told && el("p", job.reason), hint = !cause && job.hint && el("p", job.hint, { class: "quiet" });
  const [before, after] = [[(reason || hint) && card(null, reason, hint), whyCard(job), heldCard(job, release), warningsCard(job.warnings), progressCard(job)],
    [timelineCard(job.timeline, job.held), retriesCard(job), rolesCard(job), tasksCard(job, showLog), factsCard(job)]];
  return [before.filter(Boolean), after.filter(Boolean)];
}

// --- use: asked beside used ---

function gauge(used, asked, unit) {
  const bar = el("span", null, { class: "gauge", "aria-hidden": "true" }, el("span"));
  if (numeric(used) && numeric(asked) && asked > 0) bar.firstChild.style.width = `${Math.min(100, (100 * used) / asked).toFixed(1)}%`;
  return el("span", null, {}, bar, el("span", numeric(asked) && unit !== "percent" ? `${amount(used, unit)} of ${amount(asked, unit)}` : amount(used, unit)));
}

function usageCard(usage, over) {
  if (!usage) return null;
  const rows = [];
  for (const [role, found] of Object.entries(usage.roles)) {
    const { memory_mib: mib, cpus } = usage.asked[role] || {};
    for (const [what, name, unit, asked] of [["memory", "memory_bytes", "bytes", numeric(mib) ? mib * 2 ** 20 : null], ["CPU", "cpu_cores", "cores", cpus], ["GPU", "gpu_percent", "percent", 100]]) {
      const told = found[name];
      if (!told || !(told.peak || told.mean)) continue;
      const most = (spread) => (spread ? spread.most : null);
      const largest = told.peak || told.mean;  // CPU has no peak
      rows.push([`${role} ${what}`, gauge(most(largest), asked, unit), amount(most(told.mean), unit), amount(most(told.now), unit), largest.most_task || ""]);
    }
    if (found.gpus_unknown) rows.push([`${role} GPU`, `${found.gpu_percent ? "in part " : ""}not known: ${found.gpus_unknown}`, "", "", ""]);
  }
  if (!rows.length) return usage.unknown ? card("Used", el("p", `What its tasks ${over ? "used" : "use"} is not known: ${usage.unknown}.`, { class: "quiet" })) : null;
  const advice = usage.advice.map((one) => el("p", `${one.sentence}: `, {}, one.option && el("code", one.option)));
  return card("Used, of what was asked", table(["", "most", "mean", "now", "most in"], rows), ...advice);
}

// --- the log ---

class Log {
  constructor(path, signal) {
    this.path = path;
    this.signal = signal;
    this.out = el("pre", "", { tabindex: "0", "aria-label": "log" });
    this.task = el("select", null, {}, el("option", "all tasks", { value: "" }));
    this.card = card("Log", el("label", "Task ", { class: "of" }, this.task), this.out);
    this.task.addEventListener("change", () => this.restart());
    this.reading = new AbortController();
    this.over = null;  // before it has begun
    this.lines = [];
    this.rest = "";
  }

  tasks(names) {
    if (names.length === this.task.options.length - 1) return;
    const now = this.task.value;
    this.task.replaceChildren(this.task.options[0], ...names.slice(0, ROWS).map((name) => el("option", name)));
    this.task.value = now;
  }

  show(task) {
    this.task.value = task;
    this.restart();
    this.card.scrollIntoView();
    this.out.focus({ preventScroll: true });
  }

  begin(over) {
    if (this.over !== null) return;
    this.over = over;
    this.restart();
  }

  restart() {
    this.reading.abort();
    const reading = this.reading = new AbortController();
    this.signal.addEventListener("abort", () => reading.abort(), { once: true });
    const task = this.task.value ? `&task=${encodeURIComponent(this.task.value)}` : "";
    this.out.textContent = "";
    insist("log", async () => {
      this.lines = [];
      this.rest = "";
      try {
        const answer = await ask(`${this.path}/logs?tail=100${task}${this.over ? "" : "&follow=true"}`, reading.signal);
        for await (const piece of pieces(answer)) this.add(piece);
      } catch (error) {
        if (error.status !== 404 && error.code !== "settings") throw error;
        this.add(`${error.message}\n`);  // there is no log, or the gateway cannot read it: no trouble of the page
      }
      return true;
    }, RETRY_MS, reading.signal);
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

// --- stop ---

function askToStop(name, path, signal) {
  at("stop-question").textContent = `Stop ${name}? Its tasks get the time to save that its job spec gives them. What they have not saved is lost.`;
  at("stop").returnValue = "";
  at("stop").onclose = async () => {
    if (at("stop").returnValue !== "stop") return;
    try {
      await ask(`${path}/stop?wait=true`, signal, { method: "POST" });
    } catch (error) {
      if (!signal.aborted) trouble(error instanceof Refusal ? `${name} is not stopped: ${error.message}` : "the gateway does not answer; the job may go on", "stop");
    }
  };
  at("stop").showModal();
}

// --- all of it ---

export function job(name, signal) {
  const path = jobPath(name);
  const heading = el("div", null, { class: "title" }), before = el("div"), after = el("div"), used = el("div"), log = new Log(path, signal), curves = new Curves();
  const stop = el("button", "Stop", { type: "button", class: "stop", hidden: "" });
  signal.addEventListener("abort", () => curves.end());
  document.title = name;
  heading.append(el("h1", name, { tabindex: "-1" }), el("span"), stop);
  at("job").replaceChildren(el("p", null, {}, el("a", "← Jobs", { href: "#/" })), heading, before, curves.element, used, after);
  let now = null, more = {}, usage = null, asked = "", askedAt = -Infinity, usageAt = -Infinity;

  function draw() {
    if (signal.aborted || !now) return;
    document.title = `${now.state.toLowerCase()}: ${now.name}`;
    heading.firstChild.textContent = now.name;
    heading.children[1].replaceWith(state(now.state));
    stop.hidden = FINAL.has(now.state);
    stop.onclick = () => askToStop(now.name, path, signal);
    const shown = { ...more, ...now, pending: FINAL.has(now.state) ? [] : more.pending || now.pending, root_cause: now.root_cause || more.root_cause || null };
    const wrong = usage ? usage.series.filter((series) => series.kind === "metric" && notFinite(series)).map((series) => {
      const [, step, value] = notFinite(series);
      return `${series.name} is ${value}${numeric(step) ? ` since ${series.step_unit || "step"} ${short(step)}` : ""}`;
    }) : [];
    shown.warnings = [...shown.warnings, ...wrong.filter((words) => !shown.warnings.some((told) => told.includes(words)))];
    const [first, rest] = jobCards(shown, (task) => log.show(task), release);
    swap(before, first);
    swap(after, rest);
    swap(used, [usageCard(usage, FINAL.has(now.state))].filter(Boolean));
    log.tasks((more.task_list || []).map((task) => task.task));
  }

  async function release() {
    try {
      now = await (await ask(`${path}/release`, signal, { method: "POST" })).json();
      trouble("", "release");
      draw();
    } catch (error) {
      if (!signal.aborted) trouble(error instanceof Refusal ? `${now.name} is not released: ${error.message}` : "the gateway does not answer; the container may stay", "release");
    }
  }

  insist("job", async () => {
    for await (const { event, data } of events(`${path}/events`, signal)) {
      if (event === "problem") throw new Refusal(503, data);
      now = data;
      trouble("", "job");
      at("connection").textContent = FINAL.has(now.state) ? "" : "live";
      if (!log.card.isConnected) at("job").append(log.card);  // an unknown job has none
      draw();
      if (now.state !== "PENDING") log.begin(FINAL.has(now.state));
      if (FINAL.has(now.state)) return true;
    }
    at("connection").textContent = "not connected";
    return false;
  }, RETRY_MS, signal);

  insist("detail", async () => {  // what costs more requests: why, each task, the timeline
    const everyMs = now && ["PENDING", "STARTING"].includes(now.state) ? WAITING_EVERY_MS : DETAIL_EVERY_MS;
    if (!now || (now.state === asked && performance.now() - askedAt < everyMs)) return false;
    const word = now.state;
    more = await json(`${path}/description`, signal);
    [asked, askedAt] = [word, performance.now()];
    draw();
    return FINAL.has(word);
  }, 1000, signal);

  insist("usage", async () => {
    if (!now || now.state === "PENDING" || performance.now() - usageAt < USAGE_EVERY_MS) return false;
    const over = FINAL.has(now.state);
    usage = await usageOf(name, signal);
    usageAt = performance.now();
    if (!signal.aborted && usage) { curves.draw([{ label: name, usage }]); draw(); }
    return over;
  }, 1000, signal);
}

// --- runs over one another ---

export function compare(names, signal) {
  const curves = new Curves(), found = el("div");
  signal.addEventListener("abort", () => curves.end());
  document.title = `${names.length} runs`;
  at("job").replaceChildren(el("p", null, {}, el("a", "← Jobs", { href: "#/" })), el("h1", `${names.length} runs side by side`, { tabindex: "-1" }), found, curves.element);
  insist("compare", async () => {
    // what differs in what they were given, by their records
    const given = await perhaps(`/v1/comparison?${new URLSearchParams(names.map((name) => ["run", name]))}`, signal) || { differences: [], runs: [] };
    const labels = given.differences.map(({ label }) => label);
    const runs = [];
    for (const name of names) runs.push({ label: name, job: await perhaps(jobPath(name), signal), usage: await usageOf(name, signal) });
    if (signal.aborted) return true;
    const metrics = [...new Set(runs.flatMap(({ usage }) => (usage ? usage.series : []).filter(({ kind }) => kind === "metric").map((series) => series.name)))];
    const rows = runs.map(({ label, job: one, usage }) => {
      const of = (metric) => usage && usage.series.find((series) => series.kind === "metric" && series.name === metric);
      const values = metrics.map((metric) => { const series = of(metric); return series && series.points.length ? short(series.points.at(-1)[2]) : ""; });
      const recorded = given.runs.find((each) => [each.run, each.application_id, each.name].includes(label));
      const differs = labels.map((key) => (recorded ? recorded.values[key] ?? "" : "?"));
      return [el("a", label, { href: `#/job/${encodeURIComponent(label)}` }), one ? state(one.state) : "unknown", recorded ? duration(recorded.duration_s) : between(one?.started_at, one?.finished_at), ...differs, ...values];
    });
    swap(found, [card("Runs", table(["run", "state", "duration", ...labels, ...metrics.map((metric) => `last ${metric}`)], rows))]);
    if (!curves.draw(runs)) found.append(el("p", "None of these runs has told a curve.", { class: "quiet" }));
    return runs.every(({ job: one }) => !one || FINAL.has(one.state));
  }, USAGE_EVERY_MS, signal);
}
