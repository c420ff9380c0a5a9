// The section "Jobs".

import { byId, element } from "../dom.js";
import { number, tr, trn } from "../translate.js";
import { isActive } from "./figures.js";
import { setText, showItems } from "./keyed_rows.js";
import { jobState, jobTitle, time } from "./words.js";

const SHOWN = 10; // jobs, and all that have not ended

let jobs = [];
let isWhole = false;

function build(job, cancel) {
  const button = element("button", "button small", tr("Cancel"));
  button.type = "button";
  button.addEventListener("click", () => cancel(job));
  const bar = element("progress", "");
  bar.setAttribute("aria-label", tr("Progress of the job"));
  return element("li", "job", element("strong", ""), element("span", "phase"), bar, element("span", "count"), button, element("p", "hint"));
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
  const [title, state, bar, count, button, note] = node.children;
  setText(title, jobTitle(job));
  setText(state, jobState(job.state));
  if (node.dataset.state !== job.state) node.dataset.state = job.state;
  bar.hidden = !isActive(job);
  if (job.total) Object.assign(bar, { max: job.total, value: job.done });
  setText(count, countText(job));
  button.hidden = !isActive(job);
  const times = job.ended ? tr("{from} to {to}", { from: time(job.created), to: time(job.ended) }) : time(job.created);
  setText(note, [times, job.error, summaryText(job)].filter(Boolean).join(" · "));
}

function showJobs(cancel) {
  const shown = jobs.filter((job, index) => isWhole || index < SHOWN || isActive(job));
  showItems(byId("jobs"), shown, ({ job }) => job, (job) => build(job, cancel), fill);
  byId("no-jobs").hidden = jobs.length > 0;
  byId("more-jobs").hidden = shown.length === jobs.length;
}

/** Show jobs; cancel(job) is called for the one that the user wants to cancel. */
export function show(items, cancel) {
  jobs = items;
  showJobs(cancel);
  byId("more-jobs").onclick = () => {
    isWhole = true;
    showJobs(cancel);
  };
}
