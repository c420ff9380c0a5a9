// The page: a pair is on the screen, the next ones are ready, what was said is on its way.

import { next as nextTheme } from "/static/theme.js";
import { Windowing } from "/static/windowing.js";
import { Zoom } from "/static/zoom.js";
import { Clock } from "./clock.js";
import * as keys from "./keys.js";
import { Outbox } from "./outbox.js";
import { forget, isTold, person } from "./person.js";
import { ready } from "./pictures.js";
import { ask, send } from "./server.js";
import * as standing from "./standing.js";

const at = (id) => document.getElementById(id);
const AHEAD = 8; // pairs that are asked for
const LOADED = 4; // of them are loaded
const FEW = 5; // that are left: ask for more
const LOOK = 2000; // ms, while the ranker learns
const MOVED = 0.1; // of a pane, with a key
const LONGEST = 86400; // seconds that the server takes: a page left open for days has an answer all the same
const ANSWERS = ["first", "alike", "second", "skip"];

const clock = new Clock();
const zoom = new Zoom(at("panes"), [], (scale) => {
  at("zoom").textContent = `${Math.round(scale * 100)} %`;
});
const windowing = new Windowing(choose, choose);

let who = null;
let outbox = null;
let current = null; // the pair on the screen
let queue = []; // the next ones
let history = []; // judgements that can be taken back, the newest last
let learnt = null; // the round that the queue was chosen after
let chosen = null; // {scale, window} of both images, null for each file's own
let paused = false;
let asking = null; // the request for pairs that is under way
let begun = false; // the first one was answered
const gone = new Set(); // pairs that were answered here

const key = ({ first, second }) => [first, second].sort().join(" ");
const same = (one, other) => one && other && key(one) === key(other);

/** What is in the place of the pictures: "waiting", "paused", "finished", or null. */
function cover(id) {
  for (const one of ["waiting", "paused", "finished"]) at(one).hidden = one !== id;
  at("panes").inert = id !== null;
  for (const answer of ANSWERS) at(answer).disabled = id !== null;
  at("undo").disabled = id === "paused" || !history.length;
}

/** Say what went wrong; null: that is over, but for what was refused, which stays until the next answer. */
function trouble(error) {
  if (!error && at("problem").dataset.kind === "refused") return;
  at("problem").hidden = !error;
  at("problem").dataset.kind = error?.kind ?? "";
  if (!error) return;
  const [title, words] = at("problem").children;
  const known = { away: "The server does not answer", busy: "The server is busy", login: "You are not logged in any more" };
  title.textContent = known[error.kind] ?? "That cannot be done";
  words.textContent = error.message;
  at("log-in").hidden = error.kind !== "login";
}

function told(progress) {
  standing.show(progress);
  const isNew = learnt !== null && progress.learnt !== learnt;
  learnt = progress.learnt;
  if (isNew) refill(true);
  else if (progress.learning === "learning") later();
}

let timer = null;
function later() {
  clearTimeout(timer);
  timer = setTimeout(() => refill(), LOOK);
}

/** Ask for the next pairs; fresh: forget those that were chosen before. */
async function refill(fresh = false) {
  if (asking && !fresh) return asking;
  const mine = load(fresh, () => asking === mine).finally(() => {
    if (asking === mine) asking = null;
  });
  asking = mine;
  return mine;
}

async function load(fresh, isLast) {
  const query = new URLSearchParams({ count: AHEAD + outbox.items.length });
  if (!isTold()) query.set("who", who);
  let said;
  try {
    said = await (await ask(`/annotate/pairs?${query}`)).json();
  } catch (error) {
    trouble(error);
    if (error.kind === "away" || error.kind === "busy") later();
    return;
  }
  if (!isLast()) return;
  if (!outbox.items.length) trouble(null);
  if (!begun) {
    begun = true;
    history = said.history.filter((one) => !taken(one));
    standing.rate(history.map((one) => one.seconds));
  }
  const first = fresh ? queue.slice(0, 1) : queue; // the very next one is loaded and stays
  const there = new Set([current, ...first].filter(Boolean).map(key));
  queue = [...first, ...said.pairs.filter((pair) => !there.has(key(pair)) && !gone.has(key(pair)))];
  standing.agreed(said.agreement);
  told(said.progress);
  prepare();
  if (!current) advance(said.progress);
}

/** Whether a judgement was taken back, and the server does not know yet. */
function taken({ name }) {
  return outbox.bodies.some((body) => body.undoes === name);
}

function prepare() {
  for (const pair of queue.slice(0, LOADED)) {
    if (pair.made && pair.chosen === chosen) continue;
    Object.assign(pair, { chosen, loaded: null });
    const made = ready(pair, chosen).then((found) => {
      if (pair.made === made) pair.loaded = found;
      return found;
    });
    pair.made = made;
    made.catch(() => {
      if (pair.made === made) pair.made = null; // tried again, and told when it is its turn
    });
  }
}

/** The next pair onto the screen. */
function advance(progress = null) {
  current = queue.shift() ?? null;
  if (current) show();
  else if (progress?.finished) cover("finished");
  else if (progress && !outbox.items.length && progress.learning !== "learning") {
    at("waiting").textContent = "There is nothing to judge for you just now: others have the pairs that are left.";
    cover("waiting");
    later();
  } else {
    at("waiting").textContent = "Loading …";
    cover("waiting");
    if (progress) later();
  }
  if (queue.length < FEW && !progress) refill();
  prepare();
}

async function show() {
  const pair = current;
  clock.stop();
  let made = pair.chosen === chosen ? pair.loaded : null;
  if (!made) {
    if (!at("left").childElementCount) cover("waiting");
    for (const answer of ANSWERS) at(answer).disabled = true;
    try {
      made = await (pair.made && pair.chosen === chosen ? pair.made : ready(pair, chosen));
    } catch (error) {
      if (pair === current) failed(pair, error);
      return;
    }
    if (pair !== current) return;
  }
  draw(pair, made);
  clock.start();
  if (paused) clock.stop();
  cover(paused ? "paused" : null);
}

function draw(pair, { images, facts }) {
  at("left").replaceChildren(images[0]);
  at("right").replaceChildren(images[1]);
  Object.assign(at("panes").dataset, { first: pair.first, second: pair.second });
  zoom.images = images;
  zoom.draw();
  pair.scale = facts?.scale;
  const window = facts && chosen?.scale === facts.scale ? chosen.window : facts?.window;
  windowing.set(facts && { ...facts, window });
  at("windowed").textContent = chosen ? "" : "(each as its file says)";
}

/** A pair that cannot be shown: come back to it, or where its file is gone skip it, in no time. */
function failed(pair, error) {
  trouble(error);
  pair.made = null;
  if (error.kind === "refused") {
    say("skip", pair, 0);
    advance();
  } else if (error.kind !== "login") {
    setTimeout(() => pair === current && show(), LOOK);
  }
}

function say(answer, pair, seconds) {
  const name = crypto.randomUUID();
  const body = { name, seconds, first: pair.first, second: pair.second, answer };
  gone.add(key(pair));
  history.push({ name, first: pair.first, second: pair.second, seconds });
  outbox.put("/annotate/judgements", isTold() ? body : { ...body, who });
}

function judge(answer) {
  if (paused || !current || at(answer).disabled) return;
  delete at("problem").dataset.kind;
  say(answer, current, Math.min(clock.read() / 1000, LONGEST));
  standing.rate(history.map((one) => one.seconds));
  advance();
}

function undo() {
  if (paused || !history.length) return;
  const last = history.pop();
  const body = { name: crypto.randomUUID(), undoes: last.name };
  outbox.put("/annotate/undo", isTold() ? body : { ...body, who });
  gone.delete(key(last));
  queue = queue.filter((pair) => !same(pair, last));
  if (current && !same(current, last)) queue.unshift(current);
  current = { first: last.first, second: last.second };
  standing.rate(history.map((one) => one.seconds));
  show();
}

function pause() {
  if (paused) return;
  paused = true;
  clock.stop();
  at("pause").disabled = true;
  cover("paused");
  at("resume").focus();
}

function resume() {
  if (!paused) return;
  paused = false;
  at("pause").disabled = false;
  cover(current ? null : "waiting");
  clock.resume();
  document.activeElement?.blur();
  if (!current) refill();
}

async function choose(window) {
  chosen = window && current ? { scale: current.scale, window } : null;
  const [wanted, pair] = [chosen, current];
  if (!pair) return;
  try {
    const made = await ready(pair, wanted);
    if (pair === current && wanted === chosen) draw(pair, made);
  } catch (error) {
    trouble(error);
  }
  if (wanted === chosen) prepare();
}

async function write() {
  at("write").disabled = true;
  try {
    const said = await send("/annotate/severity", {});
    at("written").textContent = `${said.images} images have the label ${said.label} now, learnt after round ${said.after}`;
  } catch (error) {
    trouble(error);
  }
  at("write").disabled = false;
}

keys.install({
  ArrowLeft: () => judge("first"),
  ArrowRight: () => judge("second"),
  ArrowDown: () => judge("alike"),
  "=": () => judge("alike"),
  s: () => judge("skip"),
  u: undo,
  Backspace: undo,
  p: () => (paused ? resume() : pause()),
  w: () => !at("windowing").hidden && at("center").focus(),
  l: nextTheme,
  "+": () => zoom.larger(),
  "-": () => zoom.smaller(),
  0: () => zoom.reset(),
  "Shift+ArrowLeft": () => zoom.shift(MOVED, 0),
  "Shift+ArrowRight": () => zoom.shift(-MOVED, 0),
  "Shift+ArrowUp": () => zoom.shift(0, MOVED),
  "Shift+ArrowDown": () => zoom.shift(0, -MOVED),
});
for (const answer of ANSWERS) at(answer).addEventListener("click", () => judge(answer));
for (const [id, act] of Object.entries({ undo, pause, resume, write })) at(id).addEventListener("click", act);
at("larger").addEventListener("click", () => zoom.larger());
at("smaller").addEventListener("click", () => zoom.smaller());
at("fit").addEventListener("click", () => zoom.reset());
at("somebody-else")?.addEventListener("click", forget);
for (const id of ["center", "width"]) at(id).addEventListener("pointerup", () => at(id).blur()); // arrows judge again
document.addEventListener("visibilitychange", () => document.hidden && current && pause());

who = await person();
at("person").textContent = who;
outbox = new Outbox(`judged:${at("judging").dataset.study}:${encodeURIComponent(who)}:`, {
  answered: (response) => {
    told(response.progress);
    if (!current) refill();
  },
  trouble,
  changed: standing.unsent,
});
for (const body of outbox.bodies.filter((one) => one.first)) gone.add(key(body));
await refill();
