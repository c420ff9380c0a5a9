// Keeping the search that is shown as a case, with a title and a note.

import { addressIn, fetchJson, jsonBody } from "../api.js";
import { state, update } from "../page_state.js";
import { asText } from "../rounds.js";
import { pageAddress } from "../saved/saved_words.js";
import { collectionName, shownHits } from "../search/run.js";
import { tr } from "../translate.js";
import { html, nothing, ref } from "../vendor/lit.js";
import { toContent } from "./case_content.js";

/** Why a search cannot be kept, "" if it can. */
function obstacle({ query, facts }) {
  if (query.files) return tr("A case has one query image. Search with one of them to save it.");
  if (query.file && facts.of_series) return tr("An uploaded series cannot be saved; one of the collection can.");
  return "";
}

function content() {
  const { answer, fields, query, rounds, marks, settings } = state;
  const results = shownHits({ ...state, members: new Map() });
  const params = { ...fields, parameters: fields.parameters ?? {} };
  return toContent({ query, params, answer: { rerank: settings.view === "before" ? { method: "none" } : answer.rerank, results }, rounds, marks: asText(marks) });
}

/** Save the case; resolves with it. */
async function save({ title, note, shared }) {
  const fields = { title: title.value, note: note.value, shared: shared.checked, ...content() };
  let options = jsonBody(fields);
  if (state.query.file) {
    const body = new FormData();
    body.append("image", state.query.file, "image"); // without its name, which may be a patient's
    body.set("case", JSON.stringify(fields));
    options = { method: "POST", body };
  }
  return fetchJson(addressIn("", "cases", { collection: collectionName() }), options);
}

async function submit(event) {
  event.preventDefault();
  const form = event.target;
  update({ keeping: { ...state.keeping, problem: "", busy: true } });
  try {
    const { id, title } = await save(form.elements);
    form.reset();
    update({ keeping: null, notice: html`${tr("Case saved:")} <a href=${pageAddress("cases", id)}>${title}</a>` });
  } catch (error) {
    update({ keeping: { problem: error.message } });
  }
}

/** The button below the query. */
export const button = (now) => html`<button class="button" type="button" id="save-case" @click=${() => update({ keeping: { problem: obstacle(now), refused: Boolean(obstacle(now)) } })}>${tr("Keep")}</button>`;

/** The dialog with the title and the note. */
export function dialog({ keeping, query }) {
  const show = (element) => element && (keeping ? element.open || element.showModal() : element.close());
  return html`<dialog class="help" id="case-dialog" aria-labelledby="case-heading" @close=${() => state.keeping && update({ keeping: null })} ${ref(show)}>
    <h2 id="case-heading">${tr("Keep as a case")}</h2>
    <form id="case-form" class="case-form" @submit=${submit}>
      <p class="hint">${tr("Keeps the query, the results, your judgements and settings. Do not name patients in the title or the note.")}</p>
      ${query?.file ? html`<p class="hint" id="case-upload">${tr("Of your image the service keeps a picture without its header, in the window that is shown. Text in the picture stays.")}</p>` : nothing}
      <div class="field"><label for="case-title">${tr("Title")}</label><input type="text" id="case-title" name="title" maxlength="200" required autocomplete="off" /></div>
      <div class="field"><label for="case-note">${tr("Note")}</label><textarea id="case-note" name="note" rows="6" maxlength="10000"></textarea></div>
      <label class="check" for="case-shared"><input type="checkbox" id="case-shared" name="shared" /> ${tr("Others who may use the collection can see it")}</label>
      ${keeping?.problem ? html`<p class="problem" id="case-problem" role="alert">${keeping.problem}</p>` : nothing}
      <div class="buttons">
        <button class="button primary" type="submit" id="case-confirm" ?disabled=${Boolean(keeping?.refused || keeping?.busy)}>${tr("Keep")}</button>
        <button class="button" type="button" id="case-cancel" @click=${() => update({ keeping: null })}>${tr("Cancel")}</button>
      </div>
    </form>
  </dialog>`;
}
