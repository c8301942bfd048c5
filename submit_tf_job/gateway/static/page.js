// Jobs of a cluster, live: which page is shown, and the token of this tab.
import { held, trouble, whenRefused } from "./asking.js";
import { compare, job } from "./job.js";
import { history, list } from "./runs.js";

const at = (id) => document.getElementById(id);
let view = new AbortController();  // ends with what is shown now

function show(section) {
  for (const name of ["enter", "list", "job"]) at(name).hidden = name !== section;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === location.hash || (link.id === "to-jobs" && section === "list" && location.hash.length < 3)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  at("leave").hidden = !held("token");
}

function enter() {
  view.abort();
  trouble(held("token") ? "This token is unknown or was revoked. Ask the operator of this gateway for a new one; submit_tf_job ui prints another address at each start." : "");
  sessionStorage.clear();
  at("connection").textContent = "";
  document.title = "Token";
  show("enter");
  at("token").focus();
}

function takeToken() {  // of the address that `submit_tf_job ui` prints; a fragment is never sent
  const given = /^#token=(.+)$/.exec(location.hash);
  if (!given) return;
  sessionStorage.setItem("token", given[1]);
  sessionStorage.setItem("personal", "yes");
  window.history.replaceState(null, "", "#/");
}

function route() {
  takeToken();
  view.abort();
  view = new AbortController();
  trouble("");
  at("connection").textContent = "";
  if (at("stop").open) at("stop").close();
  const [, page, names] = /^#\/(job|compare)\/(.+)$/.exec(location.hash) || [];
  show(page ? "job" : "list");
  if (page === "job") job(decodeURIComponent(names), view.signal);
  else if (page === "compare") compare(names.split(",").slice(0, 6).map(decodeURIComponent), view.signal);
  else if (location.hash === "#/history") history(view.signal);
  else list(view.signal);
}

whenRefused(enter);
at("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", at("token").value.trim());
  at("token").value = "";
  route();
});
at("leave").addEventListener("click", () => { sessionStorage.clear(); enter(); });
addEventListener("hashchange", () => {
  scrollTo(0, 0);
  route();
  const heading = document.querySelector("#job:not([hidden]) h1");  // a screen reader begins there
  if (heading) heading.focus({ preventScroll: true });
});
route();
