// Cases and cohorts on the search page.

import { addressIn, fetchJson, formBody, jsonBody, request } from "./api.js";
import { cohortButton } from "./cohorts/start_cohort.js";
import { ask } from "./dialog.js";
import { addPart, state, update } from "./page_state.js";
import { asText } from "./rounds.js";
import { apiAddress, pageAddress, sharing } from "./saved/own.js";
import { queryViewer } from "./search/query_viewer.js";
import { collectionName, entryOf, shownHits } from "./search/run.js";
import { judgements, writeAddress } from "./search/search_fields.js";
import { summaryOf } from "./search/verdict.js";
import { tr } from "./translate.js";
import { html, nothing } from "./vendor/lit.js";

const [MAX_ANSWERS, MAX_VERDICT] = [200, 10_000]; // results, and characters said of them, that a case keeps
const MAX_ROUNDS = 50;
const drafts = new WeakMap(); // {title, note} of queries, typed and not kept yet

/** Judgements of the API as text of rounds.js; those without a direction are left out. */
const judgementText = (list) => asText(new Map(list.filter(({ relevance }) => relevance).map(({ image_id, relevance }) => [image_id, Math.sign(relevance)])));

/**
 * The content of a case. query: of the page; params: what was searched with; answer: of the API;
 * rounds, marks: as the history entry has them; verdict: what was said of the results.
 */
export function toContent({ query, params, answer, rounds, marks, verdict }) {
  const { k, rerank, parameters, where, group_by, exclude_own_study } = params;
  const { image: image_id, text, region, file, frame, window } = query;
  const search = { k, rerank, parameters, where, group_by, exclude_own_study, image_id, text, region, ...(file && { frame: frame > 1 ? frame : null, window }) };
  return {
    search: Object.fromEntries(Object.entries(search).filter(([, value]) => value)),
    rounds: rounds.slice(-MAX_ROUNDS).map(judgements),
    marks: judgements(marks),
    method: answer.rerank.method,
    ...(answer.query?.outlier && { outlier: true }),
    ...(verdict && { verdict }),
    answers: answer.results.slice(0, MAX_ANSWERS).map(({ rank, image_id, score, distance }) => ({ rank, image_id, score, distance })),
  };
}

/** Whether the study of the query is among the results where the page usually leaves it out. */
const isOwnIn = ({ text, group_by: group, exclude_own_study: isOut }) => !text && !isOut && ["patient", "study"].includes(group);

/** The parameters of the address of a case's search, as writeAddress has them. */
export function addressParams({ collection, search, rounds }) {
  return {
    collection,
    image: search.image_id ?? "",
    region: search.image_id && search.region ? search.region.join(",") : "",
    rerank: search.rerank ?? "",
    parameters: Object.entries(search.parameters).map(([name, value]) => `${name}=${value}`).join(";"),
    k: search.k,
    where: search.where.join(";"),
    group_by: search.group_by ?? "image", // else the page has one result of each patient
    own: isOwnIn(search) ? "1" : "",
    said: judgementText(rounds.at(-1) ?? []),
  };
}

export const historyEntry = ({ rounds, marks }) => ({ rounds: rounds.map(judgementText), marks: judgementText(marks) });

/** The query of a case that no address contains: words, or the stored picture; null for an image of the collection. */
async function ownQuery({ search, picture }) {
  if (search.image_id) return null;
  if (search.text) return { text: search.text };
  const blob = await (await request(picture, {})).blob();
  const file = new File([blob], "image", { type: blob.type });
  return search.region ? { file, region: search.region } : { file };
}

/** Turn the address of a case, /?case=ID, into that of its search; any other address stays. */
export async function openCase() {
  const id = new URLSearchParams(location.search).get("case");
  if (!id) return;
  const saved = await fetchJson(apiAddress("cases", id));
  const entry = { ...historyEntry(saved), ...entryOf(await ownQuery(saved)) };
  history.replaceState(entry, "", writeAddress(addressParams(saved)));
}

/** Why a search cannot be kept, "" if it can. */
function obstacle({ query, facts }) {
  if (query.files) return tr("A case has one query image. Search with one of them to save it.");
  if (query.file && facts.of_series) return tr("An uploaded series cannot be saved; one of the collection can.");
  return "";
}

function content() {
  const { answer, fields, query, rounds, marks, settings } = state;
  const results = shownHits({ ...state, members: new Map() });
  const isBefore = settings.view === "before"; // results of which nothing was said
  return toContent({ query, params: { ...fields, parameters: fields.parameters ?? {} }, answer: { query: answer.query, rerank: isBefore ? { method: "none" } : answer.rerank, results }, rounds, marks: asText(marks), verdict: isBefore || results.length > MAX_ANSWERS ? "" : summaryOf(state).words.slice(0, MAX_VERDICT) });
}

async function save(asked) {
  const { query } = state; // another one may be searched before the service answers
  const fields = { title: asked.get("title"), note: asked.get("note"), shared: asked.has("shared"), ...content() };
  const options = query.file ? formBody({ file: query.file }, { case: JSON.stringify(fields) }) : jsonBody(fields);
  const { id, title } = await fetchJson(addressIn("", "cases", { collection: collectionName() }), options);
  drafts.delete(query);
  update({ notice: html`${tr("Case saved:")} <a href=${pageAddress("cases", id)}>${title}</a>` });
}

/** What the service keeps of an uploaded query: a picture of the slice that was searched with. */
function keptOf({ slices, slice = 0, frame }) {
  const [number, count] = slices ? [slice + 1, slices.length] : [frame, queryViewer()?.count ?? 1];
  return count > 1 ? tr("Of your series the service keeps one picture, that of slice {number} of {count}.", { number, count }) : tr("Of your image the service keeps a picture.");
}

function keepButton(now) {
  const { query } = now;
  const type = ({ target: { name, value } }) => drafts.set(query, { ...drafts.get(query), [name]: value });
  const body = () => html`<p class="hint">${tr("Keeps the query, the results, your judgements and settings. Do not name patients in the title or the note.")}</p>
    ${query.file ? html`<p class="hint" id="case-upload">${keptOf(query)} ${tr("The picture looks as it did in the search, without names or dates from its file; text in the picture stays.")}</p>` : nothing}
    <div class="field"><label for="case-title">${tr("Title")}</label><input type="text" id="case-title" name="title" maxlength="200" required autocomplete="off" .value=${drafts.get(query)?.title ?? ""} @input=${type} /></div>
    <div class="field"><label for="case-note">${tr("Note")}</label><textarea id="case-note" name="note" rows="6" maxlength="10000" .value=${drafts.get(query)?.note ?? ""} @input=${type}></textarea></div>
    ${sharing(false, "case-shared")}`;
  const open = () => ask({ id: "case", title: tr("Keep as a case"), body: body(), confirm: tr("Keep"), refused: obstacle(now), act: save });
  return html`<button class="button quick" type="button" id="save-case" @click=${open}>${tr("Keep")}</button>`;
}

addPart({ open: openCase, actions: keepButton, marked: cohortButton });
