// What can be done with the selected images: search, label, delete, export.

import { callParts, state, update } from "../page_state.js";
import { tr, trn } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";
import { attempt, count, more, reload } from "./listing.js";
import { deleteImages, MAX_SET, recordsOf, saveRecords, saveTable, searchAddress, setLabels } from "./requests.js";

const MAX_EXAMPLES = 20; // images of a search
const MAX_RECORDS = 1000; // of a request

const chosen = () => [...state.selection.ids];
const close = () => update({ dialog: null });
const focusGrid = () => document.getElementById("grid").focus();

/** A button that is disabled if more than `most` images are selected. */
export function limited(now, most, text, onClick, { id = nothing, kind = "" } = {}) {
  const isOver = now.selection.ids.size > most;
  return html`<button class="button small ${kind}" type="button" id=${id} ?disabled=${isOver} title=${isOver ? tr("At most {count} images", { count: most }) : ""} @click=${onClick}>${text}</button>`;
}

function clear() {
  state.selection.clear();
  update({});
  focusGrid();
}

const open = (dialog) => update({ dialog, problem: null });

/** The bar for a state; nothing while nothing is selected. */
export function selectionBar(now) {
  const { selection: { ids }, facts, pages } = now;
  if (!ids.size) return nothing;
  const button = (text, onClick, kind = "") => limited(now, Infinity, text, onClick, { kind });
  return html`<div class="selection" id="selection" role="group" aria-label=${tr("Selected images")}>
    <strong id="selected" role="status">${trn("{count} image selected", "{count} images selected", ids.size)}</strong>
    ${limited(now, MAX_EXAMPLES, tr("Search with these"), () => location.assign(searchAddress(chosen())), { kind: "primary" })}
    ${callParts("selection", now, chosen)}
    ${facts.can_label ? button(tr("Label …"), () => open("label-dialog")) : nothing}
    ${limited(now, MAX_SET, tr("Export csv"), () => attempt(() => saveTable({ ids: chosen() })))}
    ${button(tr("Export JSON"), () => saveRecords(pages.records(ids).map((record) => ({ ...record, card: null }))))}
    ${facts.can_delete ? button(tr("Delete …"), () => open("delete-dialog"), "danger") : nothing}
    ${button(tr("Clear"), clear)}</div>`;
}

async function label(event) {
  event.preventDefault();
  const ids = chosen();
  const { key, value } = state.label;
  await attempt(async () => {
    await setLabels(ids, { [key]: value || null });
    close();
    for (let start = 0; start < ids.length; start += MAX_RECORDS) state.pages.replace(await recordsOf(ids.slice(start, start + MAX_RECORDS), true));
    await changed(trn("{count} image labelled.", "{count} images labelled.", ids.length));
  });
}

async function remove() {
  const ids = chosen();
  await attempt(async () => {
    await deleteImages(ids);
    close();
    state.pages.remove(ids);
    state.selection.clear();
    update({ active: 0 });
    focusGrid();
    await changed(trn("{count} image deleted.", "{count} images deleted.", ids.length));
    await ((await state.ids) ? reload() : more()); // the map counts what is left of an area
  });
}

/** Count again, and tell features, that images have changed. */
async function changed(done) {
  update({ done });
  callParts("changed");
  await count(true);
}

const problemOf = ({ problem }) => (problem ? html`<section class="state problem" role="alert"><p>${problem.message}</p></section>` : nothing);

function labelDialog(now) {
  const { label: { key, value }, keys } = now;
  const size = now.selection.ids.size;
  const what = !key ? "" : value ? trn("Set {key} to {value} on {count} image?", "Set {key} to {value} on {count} images?", size, { key, value }) : trn("Remove {key} from {count} image?", "Remove {key} from {count} images?", size, { key });
  const read = ({ currentTarget: { elements } }) => update({ label: { key: elements["label-key"].value.trim(), value: elements["label-value"].value.trim() } });
  return html`<dialog class="help" id="label-dialog" aria-labelledby="label-title" @close=${close}><h2 id="label-title">${tr("Label the selected images")}</h2>
    <form id="label-form" @input=${read} @submit=${label}>
      <div class="field"><label for="label-key">${tr("Key")}</label><input type="text" id="label-key" list="label-keys" maxlength="100" required autocomplete="off" /></div>
      <datalist id="label-keys">${(keys?.items ?? []).map((each) => html`<option value=${each.key}></option>`)}</datalist>
      <div class="field"><label for="label-value">${tr("Value; empty removes the label")}</label><input type="text" id="label-value" maxlength="1000" autocomplete="off" /></div>
      <p id="label-what" role="status">${what}</p>${problemOf(now)}
      <div class="buttons"><button class="button primary" type="submit">${value || !key ? trn("Label {count} image", "Label {count} images", size) : trn("Remove from {count} image", "Remove from {count} images", size)}</button>
        <button class="button" type="button" @click=${close}>${tr("Cancel")}</button></div></form></dialog>`;
}

function deleteDialog(now) {
  return html`<dialog class="help" id="delete-dialog" aria-labelledby="delete-title" @close=${close}><h2 id="delete-title">${trn("Delete {count} image?", "Delete {count} images?", now.selection.ids.size)}</h2>
    <p>${tr("This cannot be undone. Records, vectors, thumbnails and stored originals are removed, and the same pictures are not added again unless that is asked for.")}</p>${problemOf(now)}
    <div class="buttons"><button class="button" type="button" autofocus @click=${close}>${tr("Cancel")}</button>
      <button class="button danger" type="button" @click=${remove}>${tr("Delete permanently")}</button></div></dialog>`;
}

/** The dialogs that the caller may use. */
export const dialogs = (now) => html`${now.facts.can_label ? labelDialog(now) : nothing}${now.facts.can_delete ? deleteDialog(now) : nothing}`;
