// The lists: jobs of the cluster, and runs of the history, with what may be drawn over one another.
import { FINAL, held, insist, jobPath, json, perhaps, usageOf } from "./asking.js";
import { MOST_RUNS } from "./curves.js";
import { duration, el, local, progressBar, progressWords, spark, state } from "./drawing.js";

const LIST_EVERY_MS = 5000, LOOK_EVERY_MS = 15000, LOOKED_AT = 12, RECORDS = 100, MOST_RECORDS = 1000;  // the most of one request
const at = (id) => document.getElementById(id);
const chosen = new Set();  // runs that are to be compared, also of the other list
const looks = new Map();  // application → what was seen of it beyond the list, and when

function chooses(run) {
  const box = el("input", null, { type: "checkbox", "aria-label": `compare ${run}` });
  box.checked = chosen.has(run);
  box.addEventListener("change", () => { if (box.checked) chosen.add(run); else chosen.delete(run); drawChosen(); });
  return el("label", null, { class: "choose" }, box);
}

function drawChosen() {
  const runs = [...chosen].slice(0, MOST_RUNS);
  at("compare").hidden = runs.length < 2;
  at("compare").textContent = `Compare ${runs.length} runs${chosen.size > MOST_RUNS ? ` (of ${chosen.size} chosen)` : ""}`;
  at("compare").href = `#/compare/${runs.map(encodeURIComponent).join(",")}`;
}

function row(run, own, name, word, facts, more) {
  const inner = [el("span", name, { class: "name" }), state(word), ...more, el("span", facts.filter(Boolean).join(" · "), { class: "quiet" })];
  const line = own ? el("a", null, { href: `#/job/${encodeURIComponent(own)}` }, ...inner) : el("div", null, { class: "line" }, ...inner);
  return el("li", null, {}, own ? chooses(run) : el("span", null, { class: "choose" }), line);
}

function show(rows, none) {
  at("jobs").replaceChildren(...(rows.length ? rows : [el("li", none, { class: "none" })]));
}

function seen(look) {
  if (!look) return [];
  const main = look.usage && look.usage.series.find((series) => series.kind === "metric");
  const drawn = main && spark(main.name, main.points.map(([, , value]) => value));
  const words = progressWords(look.progress);
  return [words && el("span", words, { class: "metrics" }), drawn, FINAL.has(look.state) ? null : progressBar(look.progress)];
}

// Ask, one after the other, what a list does not tell: progress, and the curve of the main metric.
async function look(jobs, signal, draw) {
  for (const job of jobs.slice(0, LOOKED_AT)) {
    const known = looks.get(job.application_id), over = FINAL.has(job.state);
    if (signal.aborted) return;
    if (known && ((over && FINAL.has(known.state)) || performance.now() - known.at < LOOK_EVERY_MS)) continue;
    const [found, usage] = [await perhaps(jobPath(job.application_id), signal), await usageOf(job.application_id, signal)];
    looks.set(job.application_id, { state: found ? found.state : job.state, progress: found && found.progress, usage, at: performance.now() });
    draw();
  }
}

const asOf = () => `as of ${new Date().toLocaleTimeString([], { timeStyle: "short" })}`;
const wantedName = () => at("search").value.trim().replace(/[^A-Za-z0-9._*-]/g, "");

export function list(signal) {
  document.title = "Jobs";
  let pages = 1, jobs = [], caller = "";
  function draw() {
    if (signal.aborted || document.activeElement.closest("#jobs .choose")) return;
    show(jobs.map((job) => {
      const own = job.user === caller || held("personal");  // a gateway answers 404 for jobs of other users
      const facts = [job.user, job.queue, local(job.submitted_at), duration(job.elapsed_s), job.containers && `${job.containers} container${job.containers > 1 ? "s" : ""}`];
      return row(job.run, own && job.application_id, job.name, job.state, facts, seen(looks.get(job.application_id)));
    }), "No jobs.");
  }
  async function load() {
    const wanted = new URLSearchParams({ limit: "50" });
    if (at("state").value) wanted.set("state", at("state").value);
    if (at("everybody").checked) wanted.set("user", "*");
    if (wantedName()) wanted.set("name", `*${wantedName()}*`);
    const found = [];
    let cursor = "";
    for (let page = 0; page < pages && cursor !== null; page += 1) {
      if (cursor) wanted.set("cursor", cursor);
      const answer = await json(`/v1/jobs?${wanted}`, signal);
      found.push(...answer.jobs);
      cursor = answer.next_cursor;
      caller = answer.caller;
    }
    if (signal.aborted) return;
    jobs = found;
    draw();
    at("more").hidden = cursor === null;
    at("connection").textContent = asOf();
    look(jobs.filter((job) => job.user === caller || held("personal")), signal, draw).catch(() => {});
  }
  controls(() => { pages = 1; load().catch(() => {}); });
  at("everybody").parentElement.hidden = false;
  at("more").onclick = () => { pages += 1; load().catch(() => {}); };
  insist("list", load, LIST_EVERY_MS, signal);
}

export function history(signal) {
  document.title = "History";
  let runs = [], most = RECORDS;
  at("more").hidden = true;
  function draw() {
    const word = wantedName().toLowerCase(), only = at("state").value;
    const found = runs.filter((one) => one.run.toLowerCase().includes(word) && (!only || one.state === only));
    show(found.map((one) => {
      const end = one.end || {}, why = (end.root_cause && end.root_cause.sentence) || end.reason;
      const facts = [one.run, local(one.submission.at * 1000), duration(one.duration_s), why];
      const words = progressWords({ ...end.progress, metrics: one.metrics });
      return row(one.run, one.run, one.name, one.state, facts, [words && el("span", words, { class: "metrics" })]);
    }), "No runs in the history.");
  }
  async function load() {
    try {
      runs = (await json(`/v1/history?limit=${most}`, signal)).runs;
    } catch (error) {
      if (error.code !== "settings") throw error;
      show([], error.message);  // no history is kept
      return true;
    }
    if (!signal.aborted) draw();
    at("more").hidden = runs.length < most || most >= MOST_RECORDS;
    at("connection").textContent = asOf();
    return true;
  }
  controls(draw);
  at("everybody").parentElement.hidden = true;  // a history is of one user
  at("more").onclick = () => { most += RECORDS; insist("history", load, LIST_EVERY_MS, signal); };
  insist("history", load, LIST_EVERY_MS, signal);
}

function controls(changed) {
  for (const id of ["state", "everybody"]) at(id).onchange = changed;
  at("search").oninput = changed;
  drawChosen();
}
