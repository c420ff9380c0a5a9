// Addresses of cases and cohorts, what is said of them, a closer look at their images, and what the owner may do: change and delete.

import { fetchJson, jsonBody, request, searchAddress } from "../api.js";
import { ask } from "../dialog.js";
import { attempt } from "../list_page.js";
import { state, update } from "../page_state.js";
import { tr } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";
import { openReading, resultOf } from "../viewer/reading.js";

/** The address of a case or cohort in the API; kind: "cases" or "cohorts". */
export const apiAddress = (kind, id, part = "") => `/v1/${kind}/${encodeURIComponent(id)}${part}`;

export const pageAddress = (kind, id) => `/saved/${kind}/${encodeURIComponent(id)}`;

const NO_USER = "service"; // the owner where no tokens are needed: everybody sees what is saved

/** Collection, date, and who shares it; several: there are several collections. */
export function savedFacts({ collection, created, mine, owner, shared }, several) {
  const sharing = owner === NO_USER ? "" : shared ? tr("shared") : tr("private");
  return [several ? collection : "", created.slice(0, 10), mine ? "" : owner, sharing].filter(Boolean).join(" · ");
}

/** The address of the teaching file of a case in a format, with these label keys and ranks of results. */
export function exportAddress(id, format, keys, ranks) {
  const query = new URLSearchParams({ format });
  for (const key of keys.length ? keys : [""]) query.append("label_keys", key);
  for (const rank of ranks.length ? ranks : [0]) query.append("ranks", rank);
  return apiAddress("cases", id, `/export?${query}`);
}

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
  const [title, consequence] = QUESTIONS[kind];
  const remove = () => request(apiAddress(kind, saved.id), { method: "DELETE" });
  const open = async () => {
    const body = html`<p><b>${saved.title}</b></p><p>${consequence}</p>`;
    if (await ask({ id: "delete", title, body, confirm: tr("Delete permanently"), kind: "danger", act: remove })) done();
  };
  return html`<button class="button small danger" type="button" aria-label=${tr("Delete {title}", { title: saved.title })} @click=${open}>${tr("Delete …")}</button>`;
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

export const sharing = (isShared, id = "shared") =>
  html`<label class="check" for=${id}><input type="checkbox" id=${id} name="shared" .checked=${isShared} /> ${tr("Others who may use the collection can see it")}</label>`;

export function changeForm({ saved, facts }) {
  if (!saved.mine) return nothing;
  return html`<form id="edit" aria-labelledby="edit-title" @submit=${change}>
    <h2 id="edit-title">${tr("Change")}</h2>
    <div class="field"><label for="title">${tr("Title")}</label><input type="text" id="title" name="title" maxlength=${facts.max_title} required autocomplete="off" .value=${saved.title} /></div>
    <div class="field"><label for="note">${tr("Note")}</label><textarea id="note" name="note" rows="5" maxlength=${facts.max_note} .value=${saved.note}></textarea></div>
    ${sharing(saved.shared)}
    <div class="buttons"><button class="button small" type="submit">${tr("Save changes")}</button></div>
  </form>`;
}
