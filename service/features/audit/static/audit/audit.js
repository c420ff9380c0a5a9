// The page of an audit: starts one as a job, follows it, shows its findings in tabs.

import { request } from "../api.js";
import { byId, element } from "../dom.js";
import "../theme.js";
import { number, tr } from "../translate.js";
import { address } from "./parts.js";
import { tabsOf } from "./tabs.js";

const POLL_MS = 1000;

let tabs = [];
let shownAudit = ""; // when the audit on the page was read
let runningJob = null;

function showProblem(message) {
  byId("problem").querySelector("p").textContent = message;
  byId("problem").hidden = !message;
}

function select(name) {
  const tab = tabs.find((each) => each.name === name) ?? tabs[0];
  for (const button of byId("tabs").children) {
    const current = button.dataset.tab === tab.name;
    button.setAttribute("aria-selected", String(current));
    button.tabIndex = current ? 0 : -1;
  }
  byId("panel").setAttribute("aria-labelledby", `tab-${tab.name}`);
  tab.nodes ??= tab.show(); // once: what was decided stays
  byId("panel").replaceChildren(...tab.nodes);
  history.replaceState(history.state, "", `#${tab.name}`);
}

/** Choose a label as in the audit that is shown, so that the next one looks for the same. */
function choose(id, key) {
  if (Array.from(byId(id).options, (option) => option.value).includes(key)) byId(id).value = key;
}

function tabButton({ name, title, count }) {
  const button = element("button", "", count === undefined || count === null ? title : `${title} ${number(count)}`);
  button.type = "button";
  button.id = `tab-${name}`;
  button.dataset.tab = name;
  button.setAttribute("role", "tab");
  button.setAttribute("aria-controls", "panel");
  return button;
}

function showAudit(audit, changed, corrected) {
  const date = audit.read_at.slice(0, 16).replace("T", " ");
  const made = tr("{images} images, {date} UTC.", { images: audit.images, date });
  byId("made").textContent = changed ? `${made} ${tr("The collection has changed since.")}` : made;
  if (shownAudit === audit.read_at) return; // what was decided on the page stays
  shownAudit = audit.read_at;
  tabs = tabsOf(audit, corrected);
  byId("tabs").replaceChildren(...tabs.map(tabButton));
  byId("findings").hidden = false;
  choose("label-key", audit.labels?.key);
  choose("split-key", audit.leaks?.key);
  select(location.hash.slice(1));
}

async function load() {
  try {
    const { state, job, done, error, audit, changed, corrected } = await (await request(address("/v1/audit"), {})).json();
    const running = state === "computing";
    byId("progress-line").hidden = !running;
    byId("progress").value = done;
    byId("run").disabled = running;
    byId("cancel").disabled = !running;
    runningJob = running ? job : null;
    showProblem(state === "failed" ? tr("The last audit failed: {reason}", { reason: error ?? "" }) : "");
    if (audit) showAudit(audit, changed, corrected);
    else byId("made").textContent = running ? "" : tr("There has been no audit of this collection.");
    if (running) setTimeout(load, POLL_MS);
  } catch (problem) {
    showProblem(problem.message);
  }
}

byId("start").addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = { label: byId("label-key").value || null, split: byId("split-key").value || null };
  const { collection } = byId("audit").dataset;
  if (collection) body.collection = collection;
  byId("run").disabled = true;
  try {
    await request("/v1/audit", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    await load();
  } catch (error) {
    byId("run").disabled = false;
    showProblem(error.message);
  }
});
byId("cancel").addEventListener("click", async () => {
  byId("cancel").disabled = true;
  try {
    await request(`/v1/jobs/${encodeURIComponent(runningJob)}/cancel`, { method: "POST" });
  } catch (error) {
    showProblem(error.message);
  }
});
byId("tabs").addEventListener("click", (event) => {
  const name = event.target.closest("[role=tab]")?.dataset.tab;
  if (name) select(name);
});
byId("tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const names = tabs.map(({ name }) => name);
  const next = (names.indexOf(event.target.dataset.tab) + step + names.length) % names.length;
  select(names[next]);
  byId(`tab-${names[next]}`).focus();
});
byId("collection")?.addEventListener("change", (event) =>
  location.assign(`/audit?${new URLSearchParams({ collection: event.target.value })}`),
);
load();
