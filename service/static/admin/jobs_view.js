// The section "Jobs".

import { byId, element } from "../dom.js";
import { number, tr, trn } from "../translate.js";
import { isActive } from "./figures.js";
import { setText, showItems } from "./keyed_rows.js";
import { jobState, jobTitle, time } from "./words.js";

const SHOWN = 10; // jobs, and all that have not ended

let jobs = [];
let isWhole = false;

function buttonFor(text, job, act) {
  const button = element("button", "button small", text);
  button.type = "button";
  button.addEventListener("click", () => act(job));
  return button;
}

function build(job, { cancel, retry }) {
  const buttons = [buttonFor(tr("Cancel"), job, cancel), buttonFor(tr("Try again"), job, retry)];
  const bar = element("progress", "");
  bar.setAttribute("aria-label", tr("Progress of the job"));
  return element("li", "job", element("strong", ""), element("span", "phase"), bar, element("span", "count"), ...buttons, element("p", "hint"));
}

function countText({ done, total, refused }) {
  const looked = total === null ? trn("{count} file", "{count} files", done) : tr("{done} of {total} files", { done, total });
  return refused ? tr("{looked}, {refused} refused", { looked, refused }) : looked;
}

function summaryText({ summary }) {
  const numbers = Object.entries(summary ?? {}).filter(([, value]) => typeof value === "number" && value > 0);
  return numbers.map(([name, value]) => `${name.replaceAll("_", " ")}: ${number(value)}`).join(" · ");
}

function fill(node, job) {
  const [title, state, bar, count, cancelling, retrying, note] = node.children;
  setText(title, jobTitle(job));
  setText(state, jobState(job.state));
  if (node.dataset.state !== job.state) node.dataset.state = job.state;
  bar.hidden = !isActive(job);
  if (job.total) Object.assign(bar, { max: job.total, value: job.done });
  setText(count, countText(job));
  cancelling.hidden = !isActive(job);
  retrying.hidden = !["failed", "cancelled"].includes(job.state);
  const times = job.ended ? tr("{from} to {to}", { from: time(job.created), to: time(job.ended) }) : time(job.created);
  const reason = job.waits_for && tr("Waits for: {reason}", { reason: job.waits_for });
  setText(note, [times, reason, job.error, summaryText(job)].filter(Boolean).join(" · "));
}

function showJobs(actions) {
  const shown = jobs.filter((job, index) => isWhole || index < SHOWN || isActive(job));
  showItems(byId("jobs"), shown, ({ job }) => job, (job) => build(job, actions), fill);
  byId("no-jobs").hidden = jobs.length > 0;
  byId("more-jobs").hidden = shown.length === jobs.length;
}

/** Show jobs. actions: {cancel, retry}, called with the job that the user wants to cancel or to try again. */
export function show(items, actions) {
  jobs = items;
  showJobs(actions);
  byId("more-jobs").onclick = () => {
    isWhole = true;
    showJobs(actions);
  };
}
