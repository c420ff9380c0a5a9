// Suspect labels, corrected or confirmed by a click or a key; the collection's history has every change.

import { request } from "../api.js";
import { byId, element } from "../dom.js";
import { fixed, tr } from "../translate.js";
import { address, figure, row, rows } from "./parts.js";

const NEIGHBOURS = 3;

/** The rows of suspects of a label key; corrected: values of those that were changed since the audit, by image id. */
export function suspectRows({ key, items }, corrected) {
  const list = rows(items.map((item) => suspectRow(key, item, corrected)));
  list.addEventListener("keydown", (event) => {
    if (event.target.matches(".audit-row") && !event.ctrlKey && !event.metaKey && !event.altKey) onKey(event);
  });
  return list;
}

function suspectRow(key, item, corrected) {
  const figures = [
    figure(item.image_id, item.label, "subject"),
    ...item.neighbours.slice(0, NEIGHBOURS).map((id) => figure(id, item.suggested)),
  ];
  const correct = element("button", "button small primary", tr("Change to {value}", { value: item.suggested }));
  const keep = element("button", "button small", tr("Keep {value}", { value: item.label }));
  correct.type = keep.type = "button";
  const note = element("span", "hint");
  const node = row(`${fixed(item.suspicion, 3)} · ${item.label} → ${item.suggested}`, figures, element("div", "buttons", correct, keep, note));
  node.tabIndex = 0;
  correct.dataset.key = "y";
  keep.dataset.key = "n";
  if (item.image_id in corrected) markDecided(node, note, tr("Changed"));
  correct.addEventListener("click", () => decide(node, note, () => setLabel(item.image_id, key, item.suggested), tr("Changed")));
  keep.addEventListener("click", () => decide(node, note, async () => {}, tr("Kept")));
  return node;
}

function markDecided(node, note, text) {
  for (const button of node.querySelectorAll("button")) button.disabled = true;
  node.classList.add("decided");
  note.textContent = text;
}

function onKey(event) {
  const node = event.target;
  if (["j", "k"].includes(event.key)) (event.key === "j" ? node.nextElementSibling : node.previousElementSibling)?.focus();
  else node.querySelector(`button[data-key="${CSS.escape(event.key)}"]:not(:disabled)`)?.click();
}

/** Do what was decided on a suspect, show it, and go on with the next. */
async function decide(node, note, act, text) {
  for (const button of node.querySelectorAll("button")) button.disabled = true;
  try {
    await act();
  } catch (error) {
    for (const button of node.querySelectorAll("button")) button.disabled = false;
    note.textContent = error.message;
    return;
  }
  markDecided(node, note, text);
  byId("said").textContent = text;
  (node.nextElementSibling ?? node).focus(); // a disabled button cannot keep it
}

async function setLabel(id, key, value) {
  const body = JSON.stringify({ labels: { [key]: value } });
  await request(address(`/v1/images/${encodeURIComponent(id)}`), { method: "PATCH", headers: { "Content-Type": "application/json" }, body });
}
