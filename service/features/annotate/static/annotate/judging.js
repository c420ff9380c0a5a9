// A person's work on the page: shows item after item, takes the answers, and goes on.

import { state, update } from "../page_state.js";
import { Stopwatch } from "../study/reading.js";
import { byId } from "../theme.js";
import { tr } from "../translate.js";
import { chooseWindow, ItemQueue, keyOf, loadSources, Outbox, preload, TASKS } from "./item_queue.js";
import { facts, load, problemOf, remedyOf, send, signed } from "./study_facts.js";

const BATCH = 8; // items per request
const REFILL_BELOW = 5; // queued items
const RETRY = 2000; // ms
const MAX_SECONDS = 86400; // the server's limit, reached when the page is left open for days
const WAITING = { kind: "waiting", text: tr("Loading …") };

export const isPairs = facts.page === "pairs";
const task = TASKS[facts.page];
const queue = new ItemQueue();
const watch = new Stopwatch(); // stands still in pauses, and while something else is read
let [outbox, held, trainedOn, pending, timeout, hasResponse] = [null, false, null, null, null, false];

export const initial = {
  who: "",
  item: null, // {ids} on the screen
  sources: [], // of its pictures
  ready: false, // for an answer to it
  cover: WAITING, // {kind: "waiting" | "finished", text} over the pictures, or null
  paused: false,
  problem: null, // {remedy, title, message}
  given: new Map(), // grades by image
  history: [], // answers that can be undone, the newest last: {name, seconds} with first and second, or image and before
  progress: null, // of the service
  agreement: null,
  unsent: 0,
  written: null, // {images, label} with their severity now, or "sending"
};

const tick = () => (queue.current && !state.paused && !held ? watch.go() : watch.pause());

export const secondsOf = ({ history }) => history.filter((entry) => task.itemOf(entry)).map(({ seconds }) => seconds);

export const hasItem = () => Boolean(queue.current);

/** Let the time stand still, or go on. */
export function hold(isHeld) {
  held = isHeld;
  tick();
}

/** Show an error; null hides it, but a refusal stays until the next answer. */
export function showError(error) {
  if (error || state.problem?.remedy !== "refused") update({ problem: error && problemOf(error) });
}

export function changeWindow(detail) {
  chooseWindow(detail);
  preload(queue.following);
}

/** Begin, with the answers of an earlier visit that are not sent yet. */
export function begin(who) {
  update({ who });
  outbox = new Outbox(`judged:${facts.id}:${encodeURIComponent(who)}:`, {
    onResponse: ({ progress }) => {
      showProgress(progress);
      if (!queue.current) refill();
    },
    onError: showError,
    onChange: (unsent) => update({ unsent }),
  });
  for (const item of outbox.bodies.map(task.itemOf)) if (item) queue.answered.add(keyOf(item));
}

function showProgress(progress) {
  update({ progress });
  const isNew = trainedOn !== null && progress.trained_on !== trainedOn;
  trainedOn = progress.trained_on;
  if (isNew) refill(true);
  else if (progress.learning === "learning") refillLater();
}

function refillLater() {
  clearTimeout(timeout);
  timeout = setTimeout(() => refill(), RETRY);
}

/** Request the next items; replace: drop the queued ones, which were selected before the latest training. */
export function refill(replace = false) {
  if (pending && !replace) return pending;
  const refilling = loadItems(replace, () => pending === refilling).finally(() => pending === refilling && (pending = null));
  pending = refilling;
  return refilling;
}

async function loadItems(replace, isLatest) {
  let response;
  try {
    response = await load(task.address, signed({ count: BATCH + outbox.items.length }, state.who));
  } catch (error) {
    showError(error);
    if (remedyOf(error) === "later") refillLater();
    return;
  }
  if (!isLatest()) return;
  if (!outbox.items.length) showError(null);
  if (!hasResponse) takeOver(response);
  queue.add(task.items(response), replace);
  update({ agreement: response.agreement ?? null });
  showProgress(response.progress);
  preload(queue.following);
  if (!queue.current) advance(response.progress);
}

/** Take over what was judged before the page was opened, but what is being undone. */
function takeOver({ history, grades }) {
  hasResponse = true;
  const undone = new Set(outbox.bodies.map(({ undoes }) => undoes));
  update({ history: history.filter(({ name }) => !undone.has(name)), given: new Map(Object.entries(grades)) });
}

/** Show the next item; progress: of a response that was just handled. */
function advance(progress = null) {
  if (queue.advance()) show();
  else {
    watch.pause();
    update({ ready: false, cover: emptyCover(progress) });
    if (progress && state.cover.kind !== "finished") refillLater();
  }
  if (queue.following.length < REFILL_BELOW && !progress) refill();
  preload(queue.following);
}

function emptyCover(progress) {
  if (isPairs ? progress?.finished : progress?.graded_by_you >= progress?.images) return { kind: "finished" };
  const isIdle = progress && !outbox.items.length && progress.learning !== "learning";
  return isIdle ? { ...WAITING, text: tr("There is nothing for you to judge at the moment: other people have the rest.") } : WAITING;
}

async function show() {
  const item = queue.current;
  watch.pause();
  const loading = loadSources(item);
  if (!item.loaded) update({ ready: false, cover: state.item ? state.cover : WAITING });
  let sources = item.loaded;
  try {
    sources ??= await loading;
  } catch (error) {
    if (item === queue.current) fail(item, error);
    return;
  }
  if (item !== queue.current) return;
  update({ item, sources, ready: true, cover: null });
  watch.restart();
  tick();
}

/** Skip an item that cannot be shown if an image is gone, else try again. */
function fail(item, error) {
  showError(error);
  item.loading = null;
  const remedy = remedyOf(error);
  if (remedy === "later") setTimeout(() => item === queue.current && show(), RETRY);
  else if (remedy === "refused") answerCurrent(task.skipped, 0);
}

/** Send an answer, which can be undone. */
function post(address, fields, seconds) {
  const { first, second, image, grade } = fields;
  const entry = { name: crypto.randomUUID(), seconds: Math.min(seconds, MAX_SECONDS) };
  update({ history: [...state.history, { ...entry, ...(image ? { image, before: state.given.get(image) } : { first, second }) }] });
  outbox.add(address, signed({ ...entry, ...fields }, state.who));
  if (image) setGrade(image, grade);
}

function setGrade(image, grade) {
  const given = new Map(state.given);
  given[grade === undefined ? "delete" : "set"](image, grade);
  update({ given });
}

function answerCurrent(decision, seconds) {
  queue.markAnswered();
  post(...task.request(queue.current, decision), seconds);
  advance();
}

export function answer(decision) {
  if (state.paused || !state.ready) return;
  update({ problem: state.problem?.remedy === "refused" ? null : state.problem });
  answerCurrent(decision === "skip" ? task.skipped : decision, watch.seconds);
}

/** Grade the image of the page, or one of a pair, which stays on the screen; the time does not count for the pair. */
export function giveGrade(image, grade) {
  if (!isPairs) return answer(grade);
  if (state.paused || !state.ready) return;
  post("/annotate/grades", { image, grade }, watch.seconds);
  watch.restart();
  tick();
}

export function undo() {
  const last = state.paused ? null : state.history.at(-1);
  if (!last) return;
  update({ history: state.history.slice(0, -1) });
  outbox.add("/annotate/undo", signed({ name: crypto.randomUUID(), undoes: last.name }, state.who));
  if (last.image) setGrade(last.image, last.before);
  const item = task.itemOf(last);
  if (!item) return;
  queue.takeBack(item);
  show();
}

export function pause(paused = true) {
  if (paused === state.paused) return;
  update({ paused });
  tick();
  if (paused) queueMicrotask(() => byId("resume")?.focus());
  else document.activeElement?.blur();
  if (!paused && !queue.current) refill();
}

export async function writeSeverity() {
  update({ written: "sending" });
  try {
    update({ written: await send("/annotate/severity", {}) });
  } catch (error) {
    update({ written: null });
    showError(error);
  }
}
