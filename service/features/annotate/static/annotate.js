// Entry of the page for pairs and of that for single images: keys and buttons.

import { byId } from "/static/dom.js";
import { next as nextTheme } from "/static/theme.js";
import { tr } from "/static/translate.js";
import { annotatorName, changeAnnotator } from "./annotator.js";
import { Answers } from "./answers.js";
import { showError } from "./covers.js";
import { installInstructions, showNewInstructions } from "./instructions.js";
import { keyOf } from "./item_queue.js";
import { Outbox } from "./outbox.js";
import { showUnsent } from "./progress.js";
import { installReferences } from "./references.js";
import { postJson } from "./server.js";
import * as shortcuts from "./shortcuts.js";
import { Session } from "./session.js";

const KEY_STEP = 0.1; // part of a pane that an arrow key moves the images by
const ZOOM = 1.25; // by a key
const PAIR_ANSWERS = ["first", "alike", "second"];
const { study, task } = byId("judging").dataset;

byId("somebody-else")?.addEventListener("click", changeAnnotator);
const annotator = await annotatorName();
byId("person").textContent = annotator;
let session = null;
const outbox = new Outbox(`judged:${study}:${encodeURIComponent(annotator)}:`, {
  onResponse: (response) => {
    session?.supply.handle(response.progress);
    if (session && !session.queue.current) session.supply.refill();
  },
  onError: showError,
  onChange: showUnsent,
});
session = new Session(task, new Answers(outbox, annotator));
for (const body of outbox.bodies) {
  const item = session.task.itemOf(body);
  if (item) session.queue.answered.add(keyOf(item));
}

async function writeSeverity() {
  byId("write").disabled = true;
  try {
    const { images, label } = await postJson("/annotate/severity", {});
    byId("written").textContent = tr("{images} images now have the label {label}", { images, label });
  } catch (error) {
    showError(error);
  }
  byId("write").disabled = false;
}

const [viewer] = session.stage.viewers; // the others follow it
const isShown = () => Boolean(session.queue.current);
const hold = [() => session.clock.hold(), () => session.clock.release(isShown())];
const openInstructions = installInstructions(...hold);
const switchReferences = installReferences(...hold);

/** Answer by key or button, unless the button is disabled. */
const choose = (id, decision = id) => () => !byId(id).disabled && session.answer(decision);
const skip = choose("skip", session.task.skipped);
const undo = () => session.undo();

const common = {
  s: skip,
  u: undo,
  Backspace: undo,
  p: () => (session.clock.isPaused ? session.resume() : session.pause()),
  i: openInstructions,
  r: switchReferences,
  w: () => viewer.strip.openRow("window"),
  l: nextTheme,
  f: () => viewer.reset(),
  "+": () => viewer.zoomBy(ZOOM),
  "-": () => viewer.zoomBy(1 / ZOOM),
  "Shift+ArrowLeft": () => viewer.moveBy(KEY_STEP, 0),
  "Shift+ArrowRight": () => viewer.moveBy(-KEY_STEP, 0),
  "Shift+ArrowUp": () => viewer.moveBy(0, KEY_STEP),
  "Shift+ArrowDown": () => viewer.moveBy(0, -KEY_STEP),
};
const ofPairs = () => ({
  ArrowLeft: choose("first"),
  ArrowRight: choose("second"),
  ArrowDown: choose("alike"),
  "=": choose("alike"),
  g: () => session.grades.focus(),
  0: () => viewer.reset(),
});
const ofImages = () => ({
  x: skip,
  ...Object.fromEntries([..."0123456789"].map((digit) => [digit, () => session.grades.press(digit)])),
});
shortcuts.install({ ...common, ...(session.isPairs ? ofPairs() : ofImages()) });

if (session.isPairs) for (const id of PAIR_ANSWERS) byId(id).addEventListener("click", choose(id));
byId("skip").addEventListener("click", skip);
byId("undo").addEventListener("click", undo);
byId("pause").addEventListener("click", () => session.pause());
byId("resume").addEventListener("click", () => session.resume());
byId("write").addEventListener("click", writeSeverity);
document.addEventListener("visibilitychange", () => document.hidden && isShown() && session.pause());

await showNewInstructions();
await session.supply.refill();
