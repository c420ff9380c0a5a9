// The annotation page: shows a pair, preloads the next ones, and sends the answers in the background.

import { byId } from "/static/dom.js";
import { next as nextTheme } from "/static/theme.js";
import { Windowing } from "/static/windowing.js";
import { Zoom } from "/static/zoom.js";
import { annotatorName, changeAnnotator, isIdentified } from "./annotator.js";
import { Grades } from "./grades.js";
import { Outbox } from "./outbox.js";
import { loadPair } from "./pair_images.js";
import { showAgreement, showProgress, showRate, showUnsent } from "./progress.js";
import { postJson, request } from "./server.js";
import * as shortcuts from "./shortcuts.js";
import { Timer } from "./timer.js";

const BATCH = 8; // pairs per request
const PRELOADED = 4; // pairs whose images are loaded ahead
const REFILL_BELOW = 5; // queued pairs
const POLL_INTERVAL = 2000; // ms
const KEY_STEP = 0.1; // part of a pane that an arrow key moves the images by
const MAX_SECONDS = 86400; // the server's limit, reached when the page is left open for days
const ANSWERS = ["first", "alike", "second", "skip"];

const timer = new Timer();
const zoom = new Zoom(byId("panes"), [], (scale) => {
  byId("zoom").textContent = `${Math.round(scale * 100)} %`;
});
const windowing = new Windowing(setWindow, setWindow);
const grades = new Grades(giveGrade);

let annotator = null;
let outbox = null;
let current = null; // the pair on the screen
let queue = []; // the next pairs
let history = []; // judgements and grades that can be undone, the newest last
let trainedAfter = null; // the round of training that the queue is based on
let sharedWindow = null; // {scale, window} of both images; null for each file's own
let paused = false;
let pendingRefill = null; // the running request for pairs
let initialised = false; // by the first response
const answered = new Set(); // keys of pairs answered on this page

const keyOf = ({ first, second }) => [first, second].sort().join(" ");
const isSamePair = (a, b) => a && b && keyOf(a) === keyOf(b);

/** Cover the pictures with the section "waiting", "paused" or "finished", or uncover them with null. */
function cover(id) {
  for (const section of ["waiting", "paused", "finished"]) byId(section).hidden = section !== id;
  byId("panes").inert = id !== null;
  for (const answer of ANSWERS) byId(answer).disabled = id !== null;
  grades.disabled = id !== null;
  enableUndo();
}

function enableUndo() {
  byId("undo").disabled = paused || !history.length;
}

/** Show an error; null hides it, except a refusal, which stays until the next answer. */
function showError(error) {
  if (!error && byId("problem").dataset.kind === "refused") return;
  byId("problem").hidden = !error;
  byId("problem").dataset.kind = error?.kind ?? "";
  if (!error) return;
  const [title, message] = byId("problem").children;
  const titles = { offline: "The server does not respond", busy: "The server is busy", login: "You are no longer logged in" };
  title.textContent = titles[error.kind] ?? "The request was refused";
  message.textContent = error.message;
  byId("log-in").hidden = error.kind !== "login";
}

function handleProgress(progress) {
  showProgress(progress);
  const isNew = trainedAfter !== null && progress.learnt !== trainedAfter;
  trainedAfter = progress.learnt;
  if (isNew) refill(true);
  else if (progress.learning === "learning") refillLater();
}

let refillTimeout = null;
function refillLater() {
  clearTimeout(refillTimeout);
  refillTimeout = setTimeout(() => refill(), POLL_INTERVAL);
}

/** Request the next pairs; replace: drop the queued ones, which were selected before the latest training. */
async function refill(replace = false) {
  if (pendingRefill && !replace) return pendingRefill;
  const refilling = loadPairs(replace, () => pendingRefill === refilling).finally(() => {
    if (pendingRefill === refilling) pendingRefill = null;
  });
  pendingRefill = refilling;
  return refilling;
}

async function loadPairs(replace, isLatest) {
  const query = new URLSearchParams({ count: BATCH + outbox.items.length });
  if (!isIdentified()) query.set("who", annotator);
  let response;
  try {
    response = await (await request(`/annotate/pairs?${query}`)).json();
  } catch (error) {
    showError(error);
    if (error.kind === "offline" || error.kind === "busy") refillLater();
    return;
  }
  if (!isLatest()) return;
  if (!outbox.items.length) showError(null);
  if (!initialised) {
    initialised = true;
    history = response.history.filter((judgement) => !isUndone(judgement));
    for (const [image, grade] of Object.entries(response.grades)) grades.set(image, grade);
    updateRate();
  }
  const queued = replace ? queue.slice(0, 1) : queue; // the next pair is loaded already and stays
  const seen = new Set([current, ...queued].filter(Boolean).map(keyOf));
  queue = [...queued, ...response.pairs.filter((pair) => !seen.has(keyOf(pair)) && !answered.has(keyOf(pair)))];
  showAgreement(response.agreement);
  handleProgress(response.progress);
  preload();
  if (!current) advance(response.progress);
}

function updateRate() {
  showRate(history.filter(({ first }) => first).map((judgement) => judgement.seconds));
}

/** True if a judgement was undone and the server does not know yet. */
function isUndone({ name }) {
  return outbox.bodies.some((body) => body.undoes === name);
}

/** Load the images of the next pairs. */
function preload() {
  for (const pair of queue.slice(0, PRELOADED)) {
    if (pair.loading && pair.windowing === sharedWindow) continue;
    Object.assign(pair, { windowing: sharedWindow, loaded: null });
    const loading = loadPair(pair, sharedWindow).then((loaded) => {
      if (pair.loading === loading) pair.loaded = loaded;
      return loaded;
    });
    pair.loading = loading;
    loading.catch(() => {
      if (pair.loading === loading) pair.loading = null; // tried again when the pair is shown
    });
  }
}

/** Show the next pair. */
function advance(progress = null) {
  current = queue.shift() ?? null;
  if (current) show();
  else if (progress?.finished) cover("finished");
  else if (progress && !outbox.items.length && progress.learning !== "learning") {
    byId("waiting").textContent = "There is nothing for you to judge at the moment: other people have the remaining pairs.";
    cover("waiting");
    refillLater();
  } else {
    byId("waiting").textContent = "Loading …";
    cover("waiting");
    if (progress) refillLater();
  }
  if (queue.length < REFILL_BELOW && !progress) refill();
  preload();
}

async function show() {
  const pair = current;
  timer.stop();
  let loaded = pair.windowing === sharedWindow ? pair.loaded : null;
  if (!loaded) {
    if (!byId("left").childElementCount) cover("waiting");
    for (const answer of ANSWERS) byId(answer).disabled = true;
    try {
      loaded = await (pair.loading && pair.windowing === sharedWindow ? pair.loading : loadPair(pair, sharedWindow));
    } catch (error) {
      if (pair === current) handleFailure(pair, error);
      return;
    }
    if (pair !== current) return;
  }
  draw(pair, loaded);
  timer.start();
  if (paused) timer.stop();
  cover(paused ? "paused" : null);
}

function draw(pair, { images, info }) {
  byId("left").replaceChildren(images[0]);
  byId("right").replaceChildren(images[1]);
  Object.assign(byId("panes").dataset, { first: pair.first, second: pair.second });
  zoom.images = images;
  zoom.draw();
  grades.draw();
  pair.scale = info?.scale;
  const window = info && sharedWindow?.scale === info.scale ? sharedWindow.window : info?.window;
  windowing.set(info && { ...info, window });
  byId("windowed").textContent = sharedWindow ? "" : "(default of each file)";
}

/** Handle a pair that cannot be shown: skip it if an image is gone, else try again. */
function handleFailure(pair, error) {
  showError(error);
  pair.loading = null;
  if (error.kind === "refused") {
    sendAnswer("skip", pair, 0);
    advance();
  } else if (error.kind !== "login") {
    setTimeout(() => pair === current && show(), POLL_INTERVAL);
  }
}

function sendAnswer(answer, pair, seconds) {
  const name = crypto.randomUUID();
  const body = { name, seconds, first: pair.first, second: pair.second, answer };
  answered.add(keyOf(pair));
  history.push({ name, first: pair.first, second: pair.second, seconds });
  outbox.add("/annotate/judgements", isIdentified() ? body : { ...body, who: annotator });
}

function judge(answer) {
  if (paused || !current || byId(answer).disabled) return;
  delete byId("problem").dataset.kind;
  sendAnswer(answer, current, Math.min(timer.read() / 1000, MAX_SECONDS));
  updateRate();
  advance();
}

/** Grade one image of the pair; its time does not count for the pair. */
function giveGrade(image, grade) {
  if (paused || !current) return;
  delete byId("problem").dataset.kind;
  const name = crypto.randomUUID();
  const body = { name, seconds: Math.min(timer.read() / 1000, MAX_SECONDS), image, grade };
  history.push({ name, seconds: body.seconds, image, before: grades.given.get(image) ?? null });
  grades.set(image, grade);
  outbox.add("/annotate/grades", isIdentified() ? body : { ...body, who: annotator });
  timer.start();
  enableUndo();
}

function undo() {
  if (paused || !history.length) return;
  const last = history.pop();
  const body = { name: crypto.randomUUID(), undoes: last.name };
  outbox.add("/annotate/undo", isIdentified() ? body : { ...body, who: annotator });
  if (last.image) {
    grades.set(last.image, last.before ?? null);
    enableUndo();
    return;
  }
  answered.delete(keyOf(last));
  queue = queue.filter((pair) => !isSamePair(pair, last));
  if (current && !isSamePair(current, last)) queue.unshift(current);
  current = { first: last.first, second: last.second };
  updateRate();
  show();
}

function pause() {
  if (paused) return;
  paused = true;
  timer.stop();
  byId("pause").disabled = true;
  cover("paused");
  byId("resume").focus();
}

function resume() {
  if (!paused) return;
  paused = false;
  byId("pause").disabled = false;
  cover(current ? null : "waiting");
  timer.resume();
  document.activeElement?.blur();
  if (!current) refill();
}

/** Show both images in a window, or each in its own with null. */
async function setWindow(window) {
  sharedWindow = window && current ? { scale: current.scale, window } : null;
  const [requested, pair] = [sharedWindow, current];
  if (!pair) return;
  try {
    const loaded = await loadPair(pair, requested);
    if (pair === current && requested === sharedWindow) draw(pair, loaded);
  } catch (error) {
    showError(error);
  }
  if (requested === sharedWindow) preload();
}

async function writeSeverity() {
  byId("write").disabled = true;
  try {
    const { images, label, after } = await postJson("/annotate/severity", {});
    byId("written").textContent = `${images} images now have the label ${label}, trained after round ${after}`;
  } catch (error) {
    showError(error);
  }
  byId("write").disabled = false;
}

shortcuts.install({
  ArrowLeft: () => judge("first"),
  ArrowRight: () => judge("second"),
  ArrowDown: () => judge("alike"),
  "=": () => judge("alike"),
  s: () => judge("skip"),
  u: undo,
  Backspace: undo,
  p: () => (paused ? resume() : pause()),
  g: () => grades.focus(),
  w: () => !byId("windowing").hidden && byId("center").focus(),
  l: nextTheme,
  "+": () => zoom.larger(),
  "-": () => zoom.smaller(),
  0: () => zoom.reset(),
  "Shift+ArrowLeft": () => zoom.shift(KEY_STEP, 0),
  "Shift+ArrowRight": () => zoom.shift(-KEY_STEP, 0),
  "Shift+ArrowUp": () => zoom.shift(0, KEY_STEP),
  "Shift+ArrowDown": () => zoom.shift(0, -KEY_STEP),
});
for (const answer of ANSWERS) byId(answer).addEventListener("click", () => judge(answer));
for (const [id, action] of Object.entries({ undo, pause, resume, write: writeSeverity })) byId(id).addEventListener("click", action);
byId("larger").addEventListener("click", () => zoom.larger());
byId("smaller").addEventListener("click", () => zoom.smaller());
byId("fit").addEventListener("click", () => zoom.reset());
byId("somebody-else")?.addEventListener("click", changeAnnotator);
for (const id of ["center", "width"]) byId(id).addEventListener("pointerup", () => byId(id).blur()); // so that the arrow keys judge again
document.addEventListener("visibilitychange", () => document.hidden && current && pause());

annotator = await annotatorName();
byId("person").textContent = annotator;
outbox = new Outbox(`judged:${byId("judging").dataset.study}:${encodeURIComponent(annotator)}:`, {
  onResponse: (response) => {
    handleProgress(response.progress);
    if (!current) refill();
  },
  onError: showError,
  onChange: showUnsent,
});
for (const body of outbox.bodies.filter(({ first }) => first)) answered.add(keyOf(body));
await refill();
