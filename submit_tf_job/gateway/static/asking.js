// Requests to the gateway's own /v1, with the token of this tab, and what is said when one fails.
const RETRY_MS = 3000;
const at = (id) => document.getElementById(id);

export const FINAL = new Set(["SUCCEEDED", "FAILED", "STOPPED", "UNKNOWN"]);
export const held = (name) => sessionStorage.getItem(name);

export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.hint ? `${problem.detail} (${problem.hint})` : problem.detail);
    this.status = status;
    this.code = problem.code;
  }
}

let ahead = 0;  // milliseconds by which the server's clock is ahead of this browser's, which may be wrong
export const serverNow = () => Date.now() + ahead;

export async function ask(path, signal, { method = "GET", ...headers } = {}) {
  const token = held("token");
  const answer = await fetch(path, { method, signal, headers: { ...headers, ...(token && { Authorization: `Bearer ${token}` }) }, cache: "no-store" });
  ahead = Date.parse(answer.headers.get("date")) - Date.now() || 0;
  if (answer.ok || answer.status === 304) return answer;
  let problem = { detail: `the gateway answered ${answer.status}` };
  try { problem = await answer.json(); } catch { /* not the gateway's own words */ }
  throw new Refusal(answer.status, problem);
}

export const json = async (path, signal) => (await ask(path, signal)).json();
export const jobPath = (name) => `/v1/jobs/${encodeURIComponent(name)}`;

// What a page can do without: null where the gateway does not have it.
export async function perhaps(path, signal) {
  try {
    return await json(path, signal);
  } catch (error) {
    if (error instanceof Refusal && error.status !== 401) return null;
    throw error;
  }
}

// What a run's tasks use, and its curves; null where there are none (yet).
export const usageOf = (name, signal) => perhaps(`${jobPath(name)}/usage`, signal);

export async function* pieces(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    yield value;
  }
}

export async function* events(path, signal) {  // EventSource sends no token
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

const troubles = new Map();  // by operation

export function trouble(sentence, what = "") {
  if (sentence) troubles.set(what, sentence);
  else if (what) troubles.delete(what);
  else troubles.clear();
  const words = [...new Set(troubles.values())].join("; ");
  if (at("trouble").textContent !== words) at("trouble").textContent = words;  // a screen reader says it once
  at("trouble").hidden = !troubles.size;
}

let refused = () => {};
export const whenRefused = (enter) => { refused = enter; };

// Do something again and again until it returns true or another page is shown; say what is wrong meanwhile.
export async function insist(what, work, everyMs, signal) {
  while (!signal.aborted) {
    try {
      if (await work()) return;
      if (!signal.aborted) trouble("", what);
      await pause(everyMs, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) { refused(); return; }
      if (!(error instanceof Refusal || error instanceof TypeError)) console.error(error);
      trouble(error instanceof Refusal ? error.message : "the gateway does not answer; trying again", what);
      if (error.status >= 400 && error.status < 500 && error.status !== 429) return;
      await pause(RETRY_MS, signal);
    }
    while (document.hidden && !signal.aborted) await pause(500, signal);
  }
}
