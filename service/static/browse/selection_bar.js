// What can be done with the selected images: search, label, delete, export.

import { searchAddress } from "../api.js";
import { ask } from "../dialog.js";
import { callParts, state, update } from "../page_state.js";
import { tr, trn } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";
import { attempt, count, deleteImages, inLinks, MAX_SET, more, recordsOf, reload, saveRecords, saveTable, setLabels } from "./listing.js";

const MAX_EXAMPLES = 20; // images of a search
const MAX_RECORDS = 1000; // of a request

const chosen = () => [...state.selection.ids];

export function limited(now, most, text, onClick, { id = nothing, kind = "" } = {}) {
  const isOver = now.selection.ids.size > most;
  return html`<button class="button small ${kind}" type="button" id=${id} ?disabled=${isOver} title=${isOver ? tr("At most {count} images", { count: most }) : ""} @click=${onClick}>${text}</button>`;
}

const searchWithChosen = () => location.assign(searchAddress(chosen()[0], inLinks(), chosen().slice(1)));

function clear(changes = {}) {
  state.selection.clear();
  update(changes);
  document.getElementById("grid").focus();
}

export function selectionBar(now) {
  const { selection: { ids }, facts, pages } = now;
  if (!ids.size) return nothing;
  const button = (text, onClick, kind = "") => limited(now, Infinity, text, onClick, { kind });
  return html`<div class="selection" id="selection" role="group" aria-label=${tr("Selected images")}>
    <strong id="selected" role="status">${trn("{count} image selected", "{count} images selected", ids.size)}</strong>
    ${limited(now, MAX_EXAMPLES, tr("Search with these"), searchWithChosen, { kind: "primary" })}
    ${callParts("selection", now, chosen)}
    ${facts.can_label ? button(tr("Label …"), askLabel) : nothing}
    ${limited(now, MAX_SET, tr("Export csv"), () => attempt(() => saveTable({ ids: chosen() })))}
    ${button(tr("Export JSON"), () => saveRecords(pages.records(ids).map((record) => ({ ...record, card: null }))))}
    ${facts.can_delete ? button(tr("Delete …"), askDelete, "danger") : nothing}
    ${button(tr("Clear"), () => clear())}</div>`;
}

const labelOf = (fields) => ["key", "value"].map((name) => (fields.get(name) ?? "").trim());

async function askLabel() {
  const ids = chosen();
  const body = (fields) => {
    const [key, value] = labelOf(fields);
    const what = !key ? "" : value ? trn("Set {key} to {value} on {count} image?", "Set {key} to {value} on {count} images?", ids.length, { key, value }) : trn("Remove {key} from {count} image?", "Remove {key} from {count} images?", ids.length, { key });
    return html`<div class="field"><label for="label-key">${tr("Key")}</label><input type="text" id="label-key" name="key" list="label-keys" maxlength="100" required autocomplete="off" /></div>
      <datalist id="label-keys">${(state.keys?.items ?? []).map((each) => html`<option value=${each.key}></option>`)}</datalist>
      <div class="field"><label for="label-value">${tr("Value; empty removes the label")}</label><input type="text" id="label-value" name="value" maxlength="1000" autocomplete="off" /></div>
      <p id="label-what" role="status">${what}</p>`;
  };
  const confirm = (fields) => {
    const [key, value] = labelOf(fields);
    return value || !key ? trn("Label {count} image", "Label {count} images", ids.length) : trn("Remove from {count} image", "Remove from {count} images", ids.length);
  };
  const act = (fields) => setLabels(ids, Object.fromEntries([labelOf(fields)].map(([key, value]) => [key, value || null])));
  if (!(await ask({ id: "label", title: tr("Label the selected images"), body, confirm, act }))) return;
  await attempt(async () => {
    for (let start = 0; start < ids.length; start += MAX_RECORDS) state.pages.replace(await recordsOf(ids.slice(start, start + MAX_RECORDS), true));
    await changed(trn("{count} image labelled.", "{count} images labelled.", ids.length));
  });
}

async function askDelete() {
  const ids = chosen();
  const title = trn("Delete {count} image?", "Delete {count} images?", ids.length);
  const body = html`<p>${tr("This cannot be undone. Records, vectors, thumbnails and stored originals are removed, and the same pictures are not added again unless that is asked for.")}</p>`;
  if (!(await ask({ id: "delete", title, body, confirm: tr("Delete permanently"), kind: "danger", act: () => deleteImages(ids) }))) return;
  await attempt(async () => {
    state.pages.remove(ids);
    clear({ active: 0 });
    await changed(trn("{count} image deleted.", "{count} images deleted.", ids.length));
    await ((await state.ids) ? reload() : more()); // the map counts what is left of an area
  });
}

async function changed(done) {
  update({ done });
  callParts("changed");
  await count(true);
}
