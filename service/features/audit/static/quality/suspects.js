// Parts of the findings: rows of pictures, tables, bars. Suspect labels, corrected or confirmed by a click or a key; the collection's history
// has every change.

import { imageAddress, jsonBody, request } from "../api.js";
import { card } from "../card.js";
import { state, update } from "../page_state.js";
import { fixed } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";

/** A picture {id, caption, kind} that leads to a search with it. */
function image({ id, caption = "", kind = "" }) {
  const { in_links: collection } = state.facts;
  const hit = { image_id: id, card: { finding: caption }, links: { thumbnail: imageAddress(collection, id, "/thumbnail") } };
  return html`<li class=${kind}>${card(hit, { href: `/?${new URLSearchParams({ image: id, ...(collection && { collection }) })}` })}</li>`;
}

/** A finding: pictures {id, caption, kind} below a title, with what can be done about it. */
export function finding(title, images, { below = nothing, kind = "", isFocusable = false } = {}) {
  return html`<article class=${`finding ${kind}`} tabindex=${isFocusable ? 0 : nothing} aria-label=${title}><strong>${title}</strong><ul class="strip" role="list">${images.map(image)}</ul>${below}</article>`;
}

/** A table; cells are texts or templates. */
export function table(heads, lines) {
  return html`<div class="wide"><table><thead><tr>${heads.map((text) => html`<th scope="col">${text}</th>`)}</tr></thead>
    <tbody>${lines.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** A horizontal bar of this share of the widest. */
export const bar = (share) => html`<div class="bar-cell"><span .style=${`width: ${Math.max(100 * share, 0.5)}%`}></span></div>`;

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
