// The page of a reader study: shows item after item, and stores each answer.

import { ApiError, request } from "../api.js";
import { byId } from "../dom.js";
import { tr } from "../translate.js";
import { addressOf, enlarge, showList, toggleJudgement } from "./answer_list.js";
import { answered, choiceOf, missing, nextOpen, Stopwatch } from "./reading.js";

const form = byId("reading");
const base = `/study/${encodeURIComponent(byId("study").dataset.name)}`;
const watch = new Stopwatch();

let study = null; // {reader, collection, judge_images, items}
let position = 0; // of the item on the page
let relevant = {}; // of the item on the page
let saving = false;

const readerChoice = () => (byId("reader") ? { reader: Number(byId("reader").value) } : {});

async function post(address, message) {
  const headers = { "Content-Type": "application/json" };
  return request(base + address, { method: "POST", headers, body: JSON.stringify(message) });
}

function showProblem(error) {
  byId("problem").textContent = error instanceof ApiError ? `${error.title}. ${error.message}` : tr("Something went wrong on this page");
  byId("problem").hidden = false;
}

async function begin() {
  try {
    study = await (await post("/items", readerChoice())).json();
  } catch (error) {
    showProblem(error);
    return;
  }
  byId("problem").hidden = true;
  byId("intro").hidden = true;
  go(nextOpen(study.items));
}

function go(next) {
  form.hidden = next < 0;
  byId("done").hidden = next >= 0;
  if (next < 0) {
    byId("review").disabled = !study.items.length;
    byId("done").querySelector("button").focus();
    return;
  }
  position = next;
  show();
}

function show() {
  const item = study.items[position];
  const { collection } = study;
  relevant = { ...item.answer?.relevant };
  byId("query-picture").src = addressOf(item.query, collection, "thumbnail");
  for (const side of ["left", "right"]) {
    showList(byId(`list-${side}`), item[side], { collection, judges: study.judge_images, relevant });
  }
  form.reset();
  for (const name of ["useful_left", "useful_right", "better"]) {
    if (item.answer) choose(name, item.answer[name]);
  }
  byId("note").value = item.answer?.note ?? "";
  byId("previous").disabled = position === 0;
  const count = answered(study.items);
  byId("progress-text").textContent = tr("Query {number} of {total}, {count} answered", {
    number: position + 1, total: study.items.length, count,
  });
  byId("progress").max = study.items.length;
  byId("progress").value = count;
  byId("problem").hidden = true;
  watch.restart(item.answer?.seconds ?? 0);
  scrollTo({ top: 0 });
}

function choose(name, value) {
  form.elements[name].value = String(value);
}

function answer() {
  const values = Object.fromEntries(["useful_left", "useful_right", "better"].map((name) => [name, form.elements[name].value]));
  return { item: study.items[position].item, ...values, relevant, note: byId("note").value, seconds: Math.min(watch.seconds, 86400) };
}

async function save() {
  const said = answer();
  if (saving || missing(said).length) {
    if (!saving) {
      byId("problem").textContent = tr("Rate both lists and say which one is better, then go on.");
      byId("problem").hidden = false;
      form.elements[missing(said)[0]][0].focus();
    }
    return;
  }
  saving = true;
  const numbers = { useful_left: Number(said.useful_left), useful_right: Number(said.useful_right) };
  try {
    await post("/answers", { ...said, ...numbers, reader: study.reader });
  } catch (error) {
    showProblem(error);
    return;
  } finally {
    saving = false;
  }
  const wasOpen = !study.items[position].answer;
  study.items[position].answer = { ...said, ...numbers };
  const following = position + 1 < study.items.length ? position + 1 : 0;
  go(wasOpen || nextOpen(study.items) >= 0 ? nextOpen(study.items, following) : position + 1 < study.items.length ? following : -1);
}

byId("begin").addEventListener("click", begin);
byId("review").addEventListener("click", () => go(0));
byId("previous").addEventListener("click", () => position > 0 && go(position - 1));
byId("query-shot").addEventListener("click", () => enlarge(study.items[position].query, study.collection));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  save();
});
form.addEventListener("click", (event) => {
  const button = event.target.closest("[data-relevant]");
  if (button) toggleJudgement(button, relevant);
});
document.addEventListener("keydown", (event) => {
  const writing = event.target.matches("#note, select, textarea") || event.ctrlKey || event.metaKey || event.altKey;
  if (form.hidden || writing || document.querySelector("dialog[open]")) return; // enlarged, or a new login
  const choice = choiceOf(event.key);
  if (choice) choose(choice.name, choice.value);
  else if (event.key.toLowerCase() === "p") byId("previous").click();
  else if (event.key === "Enter" && event.target.tagName !== "BUTTON") save();
  else return;
  event.preventDefault();
});
document.addEventListener("visibilitychange", () => (document.hidden ? watch.pause() : watch.go()));
