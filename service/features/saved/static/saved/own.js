// Addresses of cases and cohorts, what is said of them, a closer look at their images, and what the owner may do: change and delete.

import { fetchJson, jsonBody, request } from "../api.js";
import { attempt } from "../list_page.js";
import { state, update } from "../page_state.js";
import { tr } from "../translate.js";
import { html, nothing, ref } from "../vendor/lit.js";
import { openReading, resultOf } from "../viewer/reading.js";

/** The address of a case or cohort in the API; kind: "cases" or "cohorts". */
export const apiAddress = (kind, id, part = "") => `/v1/${kind}/${encodeURIComponent(id)}${part}`;

/** The address of its page. */
export const pageAddress = (kind, id) => `/saved/${kind}/${encodeURIComponent(id)}`;

/** Collection, date, and who shares it; several: there are several collections. */
export function savedFacts({ collection, created, mine, owner, shared }, several) {
  return [several ? collection : "", created.slice(0, 10), mine ? "" : owner, shared ? tr("shared") : tr("private")].filter(Boolean).join(" · ");
}

/** The address of the teaching file of a case in a format, with these label keys and ranks of results. */
export function exportAddress(id, format, keys, ranks) {
  const query = new URLSearchParams({ format });
  for (const key of keys.length ? keys : [""]) query.append("label_keys", key);
  for (const rank of ranks.length ? ranks : [0]) query.append("ranks", rank);
  return apiAddress("cases", id, `/export?${query}`);
}

/** The address of a search with an image of a collection; "" is the default one. */
export const searchAddress = (image, collection) => `/?${new URLSearchParams({ image, ...(collection && { collection }) })}`;

/** Show images, from the one at an index, beside a query {source, caption} if there is one. */
export function lookCloser(hits, index, collection, query = { source: null, caption: "" }) {
  const results = hits.map((hit, at) => resultOf({ rank: at + 1, ...hit }, collection));
  openReading({ query, results, index, actions: { search: (image) => location.assign(searchAddress(image, collection)) } });
}

const QUESTIONS = {
  cases: [tr("Delete this case?"), tr("Its query picture, judgements and note are removed. This cannot be undone.")],
  cohorts: [tr("Delete this cohort?"), tr("Its judgements and note are removed; the images stay. This cannot be undone.")],
};

/** A button that asks whether to delete; done() is called when that has happened. */
export function deleteButton(kind, saved, { is_admin: isAdmin }, done) {
  if (!saved.mine && !isAdmin) return nothing;
  return html`<button class="button small danger" type="button" aria-label=${tr("Delete {title}", { title: saved.title })} @click=${() => update({ deleting: { kind, saved, done } })}>${tr("Delete …")}</button>`;
}

async function remove() {
  const { kind, saved, done } = state.deleting;
  const ask = (changes) => state.deleting?.saved === saved && update({ deleting: changes && { kind, saved, done, ...changes } }); // unless the question was closed
  ask({ busy: true });
  try {
    await request(apiAddress(kind, saved.id), { method: "DELETE" });
    ask(null);
    done();
  } catch (error) {
    ask({ problem: error.message });
  }
}

const open = (dialog) => dialog && queueMicrotask(() => dialog.isConnected && dialog.showModal()); // it is in the page after it is drawn

/** The open question of a state. */
export function deleteDialog({ deleting }) {
  if (!deleting) return nothing;
  const [title, consequence] = QUESTIONS[deleting.kind];
  return html`<dialog class="help" id="delete-dialog" aria-labelledby="delete-title" @close=${() => update({ deleting: null })} ${ref(open)}>
    <h2 id="delete-title">${title}</h2>
    <p><b>${deleting.saved.title}</b></p>
    <p>${consequence}</p>
    ${deleting.problem ? html`<p class="problem" role="alert">${deleting.problem}</p>` : nothing}
    <div class="buttons">
      <button class="button" type="button" autofocus @click=${({ target }) => target.closest("dialog").close()}>${tr("Cancel")}</button>
      <button class="button danger" type="button" id="delete-confirm" ?disabled=${deleting.busy} @click=${remove}>${tr("Delete permanently")}</button>
    </div>
  </dialog>`;
}

function change(event) {
  event.preventDefault();
  const { kind, saved } = state;
  const { title, note, shared } = event.target.elements;
  const options = { ...jsonBody({ title: title.value, note: note.value, shared: shared.checked }), method: "PATCH" };
  attempt(async () => {
    const changed = await fetchJson(apiAddress(kind, saved.id), options);
    update({ saved: { ...saved, ...changed }, said: tr("Saved"), checked: false }); // the file has another note
  });
}

/** The form of the owner for title, note and sharing. */
export function changeForm({ saved, facts }) {
  if (!saved.mine) return nothing;
  return html`<form id="edit" aria-labelledby="edit-title" @submit=${change}>
    <h2 id="edit-title">${tr("Change")}</h2>
    <div class="field"><label for="title">${tr("Title")}</label><input type="text" id="title" name="title" maxlength=${facts.max_title} required autocomplete="off" .value=${saved.title} /></div>
    <div class="field"><label for="note">${tr("Note")}</label><textarea id="note" name="note" rows="5" maxlength=${facts.max_note} .value=${saved.note}></textarea></div>
    <label class="check"><input type="checkbox" id="shared" name="shared" .checked=${saved.shared} /> ${tr("Others who may use the collection can see it")}</label>
    <div class="buttons"><button class="button small" type="submit">${tr("Save changes")}</button></div>
  </form>`;
}
