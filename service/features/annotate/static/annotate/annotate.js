// Entry of the page for pairs and of that for single images: its state, what draws it, keys.

import "../viewer/viewer.js";
import { state, subscribe, update } from "../page_state.js";
import { byId, remember, remembered, switchColours } from "../theme.js";
import { render } from "../vendor/lit.js";
import { desk, switchReferences } from "./desk.js";
import { answer, begin, hasItem, hold, initial, isPairs, pause, refill, undo } from "./judging.js";
import { facts, personName } from "./study_facts.js";

const ROOM = "(min-width: 900px)"; // where reference images fit beside the pictures
const TEXT_FIELDS = "input:not([type=checkbox]), textarea, select";
const SINGLE_KEYS = "single-keys";

const shown = remembered("references");
Object.assign(state, initial, { references: shown ? shown === "on" : matchMedia(ROOM).matches });
subscribe((now) => render(desk(now), byId("desk")));
update({});

const viewer = () => byId("left"); // another one follows it
const skip = () => answer("skip");
const press = (digit) => document.querySelector(`[data-key="${digit}"]:not(:disabled)`)?.click();
const fit = () => viewer().fit();

const actions = {
  s: skip,
  u: undo,
  Backspace: undo,
  p: () => pause(!state.paused),
  i: openInstructions,
  r: () => facts.references.length && switchReferences(),
  w: () => viewer().strip.openRow("window"),
  l: switchColours,
  f: fit,
  ...Object.fromEntries(["+", "-", ...["Left", "Right", "Up", "Down"].map((side) => `Shift+Arrow${side}`)].map((name) => [name, (event) => viewer().press(event)])),
  "?": () => byId("help").showModal(),
  ...(isPairs
    ? { ArrowLeft: () => answer("first"), ArrowRight: () => answer("second"), ArrowDown: () => answer("alike"), "=": () => answer("alike"), g: () => document.querySelector("[data-grade]")?.focus(), 0: fit }
    : { x: skip, ...Object.fromEntries([..."0123456789"].map((digit) => [digit, () => press(digit)])) }),
};

/** Let keys work outside of text fields; single letters only while that is wanted. */
function handleKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest?.(TEXT_FIELDS)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const isCharacter = event.key.length === 1;
  if (isCharacter && !byId("single-keys").checked) return;
  const name = isCharacter ? event.key.toLowerCase() : `${event.shiftKey ? "Shift+" : ""}${event.key}`;
  if (!actions[name]) return;
  if (!event.repeat || event.shiftKey) actions[name](event); // holding a key down judges only once
  event.preventDefault();
}

async function openInstructions() {
  const dialog = byId("instructions");
  if (!dialog) return;
  hold(true);
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  hold(false);
}

/** Open the instructions if this browser has not shown this version of them. */
async function openNewInstructions() {
  const key = `instructions:${facts.id}`;
  if (remembered(key) === facts.instructions_version) return;
  await openInstructions();
  remember(key, facts.instructions_version);
}

byId("single-keys").checked = remembered(SINGLE_KEYS) !== "off";
byId("single-keys").addEventListener("change", ({ target }) => remember(SINGLE_KEYS, target.checked ? "on" : "off"));
byId("keys-help").addEventListener("click", actions["?"]);
byId("instructions-open")?.addEventListener("click", openInstructions);
document.addEventListener("keydown", handleKey);
document.addEventListener("visibilitychange", () => document.hidden && hasItem() && pause());

begin(await personName());
await openNewInstructions();
await refill();
