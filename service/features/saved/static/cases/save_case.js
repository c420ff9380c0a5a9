// Saving the search that is shown as a case, with a title and a note.

import { request } from "../api.js";
import * as collection from "../collection.js";
import { byId, element } from "../dom.js";
import * as feedback from "../feedback.js";
import { selectedView } from "../search_params.js";
import { state } from "../search_state.js";
import { tr } from "../translate.js";
import { toContent } from "./case_content.js";

/** Why the search cannot be saved, "" if it can. */
function obstacle() {
  const { query } = state;
  if (query.files) return tr("A case has one query image. Search with one of them to save it.");
  if (query.file && collection.isOfSeries()) return tr("An uploaded series cannot be saved; one of the collection can.");
  return "";
}

function content() {
  const { after, before, params } = state.shown;
  const answer = selectedView() === "before" && before ? { ...before, results: before.results.slice(0, params.k) } : after;
  return toContent({ query: state.query, params, answer, ...feedback.kept() });
}

/** Save the case; resolves with it. */
async function save() {
  const fields = {
    title: byId("case-title").value,
    note: byId("case-note").value,
    shared: byId("case-shared").checked,
    ...content(),
  };
  const name = collection.current();
  const address = `/v1/cases${name && `?${new URLSearchParams({ collection: name })}`}`;
  const json = JSON.stringify(fields);
  let options = { method: "POST", headers: { "Content-Type": "application/json" }, body: json };
  if (state.query.file) {
    const body = new FormData();
    body.append("image", state.query.file, "image"); // without its name, which may be a patient's
    body.set("case", json);
    options = { method: "POST", body };
  }
  return (await request(address, options)).json();
}

function showSaved({ id, title }) {
  const link = element("a", "", title);
  link.href = `/cases/${encodeURIComponent(id)}`;
  byId("shared").replaceChildren(tr("Case saved:"), " ", link);
  byId("shared").hidden = false;
}

/** Connect the button and the dialog. */
export function install() {
  const dialog = byId("case-dialog");
  byId("save-case").addEventListener("click", () => {
    if (!state.shown) return;
    const reason = obstacle();
    byId("case-problem").textContent = reason;
    byId("case-problem").hidden = !reason;
    byId("case-confirm").disabled = Boolean(reason);
    byId("case-upload").hidden = !state.query.file;
    dialog.showModal();
  });
  byId("case-cancel").addEventListener("click", () => dialog.close());
  byId("case-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    byId("case-confirm").disabled = true;
    byId("case-problem").hidden = true;
    try {
      const saved = await save();
      byId("case-form").reset();
      dialog.close();
      showSaved(saved);
    } catch (error) {
      byId("case-problem").textContent = error.message;
      byId("case-problem").hidden = false;
    } finally {
      byId("case-confirm").disabled = false;
    }
  });
}
