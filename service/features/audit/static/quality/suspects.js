// Suspect labels, corrected or confirmed by a click or a key; the collection's history has every change.

import { imageAddress, jsonBody, request } from "../api.js";
import { state, update } from "../page_state.js";
import { fixed } from "../translate.js";
import { html } from "../vendor/lit.js";
import { finding } from "./parts.js";

const NEIGHBOURS = 3;

/** Do what was decided on a suspect, and go on with the next. */
async function decide({ image_id: id }, row, words, act = async () => {}) {
  const note = (text, isDone) => update({ decided: new Map(state.decided).set(id, { words: text, isDone }) });
  note("", true); // its buttons are disabled meanwhile
  try {
    await act();
  } catch (error) {
    return note(error.message, false);
  }
  note(words, true);
  (row.nextElementSibling ?? row).focus(); // a disabled button cannot keep it
}

const setLabel = (id, key, value) => () => request(imageAddress(state.facts.in_links, id), { ...jsonBody({ labels: { [key]: value } }), method: "PATCH" });

function onKey(event) {
  const row = event.target;
  if (!row.matches(".finding") || event.ctrlKey || event.metaKey || event.altKey) return;
  const other = { j: row.nextElementSibling, k: row.previousElementSibling }[event.key];
  if (other) other.focus();
  else row.querySelector(`button[data-key="${CSS.escape(event.key)}"]:not(:disabled)`)?.click();
}

function suspect(key, item, { corrected, decided }) {
  const { words = "", isDone = false } = decided.get(item.image_id) ?? (item.image_id in corrected ? { words: "Changed", isDone: true } : {});
  const images = [{ id: item.image_id, caption: item.label, kind: "subject" }, ...item.neighbours.slice(0, NEIGHBOURS).map((id) => ({ id, caption: item.suggested }))];
  const button = (sign, text, kind, action) => html`<button class=${`button small ${kind}`} type="button" data-key=${sign} ?disabled=${isDone} @click=${({ target }) => action(target.closest(".finding"))}>${text}</button>`;
  const below = html`<div class="buttons">
    ${button("y", `Change to ${item.suggested}`, "primary", (row) => decide(item, row, "Changed", setLabel(item.image_id, key, item.suggested)))}
    ${button("n", `Keep ${item.label}`, "", (row) => decide(item, row, "Kept"))}
    <span class="hint" role="status">${words}</span></div>`;
  return finding(`${fixed(item.suspicion, 3)} · ${item.label} → ${item.suggested}`, images, { below, kind: isDone ? "decided" : "", isFocusable: true });
}

/** The suspects of a label key for a state. */
export const suspects = ({ key, items }, now) => html`<div class="findings" @keydown=${onKey}>${items.map((item) => suspect(key, item, now))}</div>`;
