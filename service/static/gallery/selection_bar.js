// What can be done with the selected images: label, delete, search, export.

import { byId } from "../dom.js";
import { callParts } from "../page_parts.js";
import { tr, trn } from "../translate.js";
import { saveRecords, saveTable } from "./export_files.js";
import { deleteImages, MAX_SET, searchAddress, setLabels } from "./requests.js";

export const MAX_EXAMPLES = 20; // images of a search

/** Show how many images are selected. */
export function show(selection) {
  byId("selection").hidden = !selection.size;
  byId("selected").textContent = trn("{count} image selected", "{count} images selected", selection.size);
  limit(byId("search-with"), selection.size, MAX_EXAMPLES);
  limit(byId("export-selected-csv"), selection.size, MAX_SET);
  callParts("select", selection);
}

/** Disable a button if too many images are selected. */
export function limit(button, size, most) {
  button.disabled = size > most;
  button.title = size > most ? tr("At most {count} images", { count: most }) : "";
}

/**
 * Connect the buttons. state(): {pages, selection}; afterLabels(ids, labels) and afterDelete(ids): it is done;
 * attempt(action): runs an action, and shows its error.
 */
export function install(state, { afterLabels, afterDelete, onSelect, attempt }) {
  const chosen = () => [...state().selection.ids];
  byId("clear-selection").addEventListener("click", () => {
    state().selection.clear();
    onSelect();
    byId("grid").focus();
  });
  byId("search-with").addEventListener("click", () => location.assign(searchAddress(chosen())));
  callParts("install", { chosen });
  byId("export-selected-csv").addEventListener("click", () => attempt(() => saveTable({ ids: chosen() })));
  byId("export-selected-json").addEventListener("click", () => saveRecords(state().pages.records(chosen())));
  installLabels(chosen, afterLabels, attempt);
  installDelete(chosen, afterDelete, attempt);
}

function installLabels(chosen, afterLabels, attempt) {
  if (!byId("label-selected")) return; // the caller may not
  const dialog = byId("label-dialog");
  const describe = () => {
    const key = byId("label-key").value.trim();
    const value = byId("label-value").value.trim();
    const count = chosen().length;
    byId("label-what").textContent = !key
      ? ""
      : value
        ? trn("Set {key} to {value} on {count} image?", "Set {key} to {value} on {count} images?", count, { key, value })
        : trn("Remove {key} from {count} image?", "Remove {key} from {count} images?", count, { key });
    byId("label-confirm").textContent = 
      value || !key
        ? trn("Label {count} image", "Label {count} images", count)
        : trn("Remove from {count} image", "Remove from {count} images", count);
  };
  byId("label-selected").addEventListener("click", () => {
    byId("label-problem").hidden = true;
    describe();
    dialog.showModal();
  });
  byId("label-form").addEventListener("input", describe);
  byId("label-cancel").addEventListener("click", () => dialog.close());
  byId("label-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const ids = chosen();
    const labels = { [byId("label-key").value.trim()]: byId("label-value").value.trim() || null };
    attempt(async () => {
      await setLabels(ids, labels);
      dialog.close();
      await afterLabels(ids, labels);
    }, byId("label-problem"));
  });
}

function installDelete(chosen, afterDelete, attempt) {
  if (!byId("delete-selected")) return;
  const dialog = byId("delete-dialog");
  byId("delete-selected").addEventListener("click", () => {
    byId("delete-problem").hidden = true;
    byId("delete-title").textContent = trn("Delete {count} image?", "Delete {count} images?", chosen().length);
    dialog.showModal();
  });
  byId("delete-cancel").addEventListener("click", () => dialog.close());
  byId("delete-confirm").addEventListener("click", () => {
    const ids = chosen();
    attempt(async () => {
      await deleteImages(ids);
      dialog.close();
      await afterDelete(ids);
    }, byId("delete-problem"));
  });
}
