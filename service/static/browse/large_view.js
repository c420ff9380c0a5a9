// An image, with the slices of its series, or a series or study, large, in a dialog.

import { searchAddress } from "../api.js";
import { titleOf } from "../card.js";
import { state, update } from "../page_state.js";
import { tr, trn } from "../translate.js";
import { html, live, nothing } from "../vendor/lit.js";
import { sliceOf } from "../viewer/picture_source.js";
import "../viewer/viewer.js";
import { attempt, change, inLinks, more, record, slices } from "./listing.js";

const indexOf = (items, { image_id }) => items.findIndex((each) => each.image_id === image_id);

/** What the dialog shows of images, one of which is in front; `item` is that of the grid, or of the map. */
function stackOf(items, index, item = null) {
  const { collection } = state.facts;
  const source = items.length > 1 ? { kind: "stack", collection, slices: items.map(sliceOf), index } : { kind: "image", collection, id: items[0].image_id };
  return { items, item, index, source };
}

export function openItem(item) {
  const stack = state.large?.items.length > 1 ? state.large.items : [];
  const known = indexOf(stack, item);
  const large = known < 0 ? stackOf([item], 0, item) : stackOf(stack, known, item);
  update({ large });
  if (item === state.pages.items.at(-1)) attempt(more); // so that there is a next one
  if (!item.series || known >= 0) return;
  attempt(async () => {
    const items = await slices(item);
    const index = indexOf(items, item);
    if (state.large === large && index >= 0) update({ large: stackOf(items, index, item) });
  });
}

export const openImage = (id) => attempt(async () => openItem(state.pages.item(id) ?? (await record(id))));

/** Open the series or study of the address, or close it. */
export async function openAddressed({ study, series, large }) {
  const uids = JSON.stringify([study, series]);
  if (!study) return large?.uids ? update({ large: null }) : null;
  if (large?.uids === uids) return null;
  await attempt(async () => {
    const items = await slices({ study, series });
    if (items.length && uids === JSON.stringify([state.study, state.series])) update({ large: { ...stackOf(items, Math.floor(items.length / 2)), uids } });
  });
}

function beside(step) {
  const { pages, large } = state;
  const position = pages.positions.get(large.item?.image_id);
  return position === undefined ? undefined : pages.items[position + step];
}

function key(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const viewer = event.currentTarget.querySelector("cbir-viewer");
  if (step && state.large?.item && !event.shiftKey && !event.target.closest("input")) {
    if (beside(step)) openItem(beside(step));
  } else if (event.target.closest("input, a") || !viewer.press(event)) return;
  event.preventDefault();
}

function closed() {
  const { large } = state;
  update({ large: null });
  if (large?.uids) change({ study: "", series: "" });
}

export function largeView({ large }) {
  const item = large?.items[large.index];
  const title = !item ? "" : large.item ? titleOf(large.item) : trn("{count} slice", "{count} slices", large.items.length);
  const step = (by, sign, name) => html`<button class="button small" type="button" aria-label=${name} title=${name} ?disabled=${!beside(by)} @click=${() => openItem(beside(by))}>${sign}</button>`;
  const labels = Object.entries(item?.labels ?? {}).map((pair) => pair.join(": ")).join(" · ");
  return html`<dialog class="compare" id="large" aria-labelledby="large-title" @close=${closed} @keydown=${key}>
    <header><div><h2 id="large-title">${title}</h2><p class="hint">${labels}</p></div>
      <div class="buttons">${large?.item ? html`${step(-1, "←", tr("Previous image"))}${step(1, "→", tr("Next image"))}` : nothing}
        ${item ? html`<a class="button small primary" href=${searchAddress(item.image_id, inLinks())}>${tr("Search with this image")}</a>` : nothing}
        <button class="button small" type="button" @click=${closed}>${tr("Close")}</button></div></header>
    <cbir-viewer id="large-viewer" tools="window zoom measure" wheel-zooms label=${title} .source=${live(large?.source ?? null)}
      @cbir-slice=${({ detail }) => state.large && update({ large: { ...state.large, index: detail.index } })}></cbir-viewer></dialog>`;
}
