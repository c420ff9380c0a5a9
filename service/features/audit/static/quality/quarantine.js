// Images that the intake check keeps out, to release or refuse.

import { addressIn, fetchJson, request } from "../api.js";
import { card } from "../card.js";
import { attempt, moreButton } from "../list_page.js";
import { state, update } from "../page_state.js";
import { trn } from "../translate.js";
import { html, nothing, repeat } from "../vendor/lit.js";

const REASONS = {
  text: "Text is burned into the pixels",
  blank: "The image shows nothing",
  damaged: "The end of the image is missing",
  inverted: "It looks inverted: its negative fits the collection better",
  modality: "It looks like images of another modality",
  unlike: "Nothing in the collection looks like it",
};

const address = (part = "", fields = {}) => addressIn(state.facts.in_links, `quarantine${part}`, fields);

/** Load the first images, or those after a cursor. */
export const load = (cursor = "") =>
  attempt(async () => {
    const { items, next } = await fetchJson(address("", { cursor }));
    update({ quarantined: { items: cursor ? [...state.quarantined.items, ...items] : items, next } });
  });

/** Carry out the decision on an image, and take it off the list. If that fails, the list may be old: somebody else has decided. */
const decide = ({ image_id: id }, part, method) =>
  attempt(async () => {
    await request(address(`/${encodeURIComponent(id)}${part}`), { method });
    update({ quarantined: { ...state.quarantined, items: state.quarantined.items.filter((item) => item.image_id !== id) } });
  }, () => load());

function entry(item) {
  const finding = item.findings.map((each) => REASONS[each] ?? each).join("; ");
  const button = (words, kind, action) => html`<button class=${`button small ${kind}`} type="button" ?disabled=${state.busy} @click=${action}>${words}</button>`;
  const below = html`<div class="buttons">${button("Release", "primary", () => decide(item, "/release", "POST"))}${button("Refuse", "danger", () => decide(item, "", "DELETE"))}</div>`;
  return html`<li>${card({ ...item, card: { finding }, links: { thumbnail: address(`/${encodeURIComponent(item.image_id)}/thumbnail`) } }, { href: nothing, below })}</li>`;
}

/** The tab of a state. */
export function draw({ quarantined }) {
  const { items, next } = quarantined ?? { items: [], next: null };
  return html`<p class="hint">The intake check keeps these images out: no search finds them until they are released.</p>
    <p role="status">${quarantined ? trn("{count} image", "{count} images", items.length) : ""}</p>
    <ul class="grid" id="quarantined" role="list">${repeat(items, ({ image_id: id }) => id, entry)}</ul>
    ${moreButton(next, () => load(next))}`;
}
