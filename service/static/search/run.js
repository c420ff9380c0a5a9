// Running searches: with a new query, with judgements, or again after a change of the settings.

import { request, withFields } from "../api.js";
import { callParts, state, update } from "../page_state.js";
import { Problem, withFileNames } from "../problems.js";
import { asText, judged, parse, without } from "../rounds.js";
import { byId } from "../theme.js";
import { tr } from "../translate.js";
import { forgetSeries } from "../viewer/picture_source.js";
import { addressFields, defaultSettings, queryOf, readAddress, searchedMarks, searchFields, settingsOf, writeAddress } from "./search_fields.js";
import { sendSearch } from "./send_search.js";

const STEP = 24; // members that are loaded at once
const MAX_SIZE = 100; // results of a group in one answer

/** How many images of the group of `hit` can be shown beside those that are: {members, left}; null for none. */
export const leftOf = ({ group }, shown = null) => shown?.left ?? Math.min(group?.more ?? 0, MAX_SIZE - 1);

/** The others of the group of `hit` in the results of a larger answer, with ranks such as "3.1". */
export function membersOf(hit, results) {
  const others = results.filter(({ group, image_id }) => group?.key === hit.group.key && image_id !== hit.image_id);
  return others.slice(0, hit.group.more).map((member, index) => ({ ...member, group: null, rank: `${hit.rank}.${index + 1}` }));
}

const UPLOAD_PART = 0.9; // of the progress; the rest is the search

const queries = []; // by file or text, which no address contains: for the browser's back button
const LOADED = performance.timeOrigin; // entries of the history from before a reload name queries that are gone
let running = new AbortController();

/** Ends the requests that run; returns the signal of the next ones. */
function restart() {
  running.abort();
  running = new AbortController();
  return running.signal;
}

export const collectionName = () => state.facts.collection;

/** The address of the page for a query: that of now, another one, or none. */
export const addressOf = (query) => writeAddress(addressFields({ ...state, rounds: query === state.query ? state.rounds : [] }, query));

/** What an entry of the history has of a query: its number among those that no address contains. */
export function entryOf(query) {
  if (!query || query.image) return {};
  if (!queries.includes(query)) queries.push(query);
  return { file: queries.indexOf(query), loaded: LOADED };
}

/** What the state has of a new query. */
const begun = (query) => ({ query, opened: query, marks: new Map(), rounds: [], sheet: false, otherWindow: null });

/** Put the rounds and marks into the entry of the history that is shown. */
export const keepMarks = () => history.replaceState({ ...history.state, rounds: state.rounds, marks: asText(state.marks) }, "", addressOf(state.query));

/** Search with a new query, as a new history entry. */
export function startSearch(query) {
  update(begun(query));
  history.pushState(entryOf(query), "", addressOf(query));
  return run();
}

/** Search with a result, or with the slice of its series that its card shows. */
export const searchWith = (image) => startSearch({ image: state.slices.get(image)?.id ?? image });

/** Go on with a query {query, marks, rounds} that was kept, in the entry of the history that is shown. */
export function resume(kept) {
  update({ ...kept, opened: kept.query });
  history.replaceState({ ...history.state, ...entryOf(kept.query) }, "", addressOf(kept.query));
  return run();
}

/** Show the start page, as a new history entry. */
export function startAgain() {
  restart();
  update({ ...begun(null), answer: null, problem: null, busy: null });
  callParts("answer", null);
  history.pushState({}, "", addressOf(null));
}

function noteSettings(changes) {
  update({ settings: { ...state.settings, ...changes } });
  history.replaceState(history.state, "", addressOf(state.query));
}

export function changeSettings(changes) {
  noteSettings(changes);
  return run();
}

/** Change what is shown of the results, without a search. */
export const changeView = (view) => noteSettings({ view });

/** Search with another part of the query: a region, a window, a slice or frame. Marks stay; a region is searched for without them, until it is refined. */
export function changePart(part) {
  const rounds = part.region ? [] : state.rounds;
  update({ query: { ...state.query, ...part }, rounds });
  history.pushState({ ...entryOf(state.query), round: history.state?.round, rounds, marks: asText(state.marks) }, "", addressOf(state.query));
  return run();
}

/** Search again with all marks, as a new history entry. */
export function refine() {
  if (!state.query || state.query.text || asText(state.marks) === searchedMarks(state)) return;
  searchRound(state.marks.size ? [...state.rounds, asText(state.marks)] : []);
}

export const undoRound = (index) => searchRound(without(state.rounds, index));

function searchRound(rounds) {
  update({ rounds, marks: parse(rounds.at(-1) ?? "") });
  history.pushState({ ...entryOf(state.query), round: (history.state?.round ?? 0) + 1, rounds, marks: asText(state.marks) }, "", addressOf(state.query));
  run();
}

/** Mark a result as like the query (1) or not (-1); the same mark again takes it away. */
export function mark(image, value) {
  update({ marks: judged(state.marks, image, value) });
  callParts("judge", image, state.marks.get(image) ?? 0);
  keepMarks();
}

/** Take all marks away; results of a search with some are searched again. */
export function clearMarks() {
  for (const image of state.marks.keys()) callParts("judge", image, 0);
  update({ marks: new Map() });
  if (state.rounds.length) searchRound([]);
  else keepMarks();
}

const fieldsNow = () => {
  const fields = searchFields(state, Object.assign({}, ...callParts("searchFields", state)));
  const include = ["cards", ...(state.query.text || fields.anywhere || fields.rerank === "none" || fields.federated ? [] : ["before"])];
  return { ...fields, include: [...include, ...callParts("include", state).flat()] };
};

/** Search with the present query and settings; an error keeps the results that are shown. */
export async function run() {
  const { query } = state;
  if (!query) return;
  const signal = restart();
  const fields = fieldsNow();
  const busy = (share) => signal.aborted || update({ busy: { share } });
  update({ busy: { share: query.file ? 0 : UPLOAD_PART }, problem: null, notice: "" });
  try {
    const answer = await sendSearch(query, fields, { collection: collectionName(), signal, onProgress: (share) => busy(share * UPLOAD_PART) });
    if (signal.aborted) return;
    update({ answer, fields, shownQuery: query, busy: null, members: new Map(), slices: new Map() });
    forgetSeries();
    document.querySelector(".found")?.scrollTo(0, 0);
    callParts("answer", answer, { query, signal });
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    if (error instanceof Problem && query.file) error.message = withFileNames(error.message, query);
    showError(error);
  }
}

export function showError(error) {
  const { title = tr("Something went wrong on this page"), temporary, type } = error;
  if (!error.title) console.error(error);
  const message = error.title ? error.message : tr("Reload the page and search again.");
  update({ busy: null, problem: { title, message, type, again: temporary && (() => (state.query ? run() : location.reload())) } });
}

/** Show more images of the group of `hit`, or that one alone where there are no more. */
export async function showMore(hit) {
  const show = (shown) => update({ members: new Map(state.members).set(hit.image_id, shown) });
  const shown = state.members.get(hit.image_id);
  const [count, left] = [shown?.members.length ?? 0, leftOf(hit, shown)];
  if (!left) return show(null);
  try {
    const fields = { ...state.fields, include: ["cards"], group_size: 1 + count + Math.min(left, STEP) };
    const answer = await sendSearch(state.shownQuery, fields, { collection: collectionName(), signal: running.signal });
    const members = membersOf(hit, answer.results);
    show({ members, left: members.length > count ? leftOf(hit) - members.length : 0 }); // none if the answer has no more
  } catch (error) {
    if (error.name !== "AbortError") showError(error);
  }
}

/** Whether the results are those of another query than the one that is shown. */
export const isStale = ({ query, shownQuery }) => query !== shownQuery;

/** The results in the order and the list that is shown: those of a group after its best one. */
export function shownHits({ answer, settings, members, facts }, list = settings.view) {
  if (!answer) return [];
  const hits = list === "before" && answer.before ? answer.before.results.slice(0, Math.min(settings.k, facts.max_results)) : answer.results;
  return hits.flatMap((hit) => [hit, ...(members.get(hit.image_id)?.members ?? [])]);
}

/** Read what the service says of a collection; null if it does not, which is shown, or if something else was asked for meanwhile. */
async function factsFor(collection) {
  const signal = restart();
  try {
    const html = await (await request(withFields("/", { collection }), { signal })).text();
    const page = new DOMParser().parseFromString(html, "text/html");
    for (const id of ["pages", "more-pages", "collections"]) byId(id)?.replaceChildren(...page.getElementById(id).childNodes);
    document.querySelector("#collection span").textContent = collection;
    return factsOf(page);
  } catch (error) {
    if (!signal.aborted) showError(error);
    return null;
  }
}

/** Go to another collection with the query, if it is a file or words. */
export async function changeCollection(name) {
  const facts = await factsFor(name);
  if (!facts) return;
  const { query } = state;
  const kept = query?.image ? null : query;
  update({ ...begun(kept), facts, settings: { ...defaultSettings(facts), k: state.settings.k }, answer: null, problem: null, busy: null });
  callParts("answer", null);
  history.pushState(entryOf(kept), "", addressOf(kept));
  run();
}

/** What the service says of the collection of a page. */
export const factsOf = (page) => ({ ...JSON.parse(page.getElementById("search").dataset.facts), several: Boolean(page.getElementById("collections")) });

/** The collection of addresses that name none. */
const usualCollection = () => document.querySelector("#collections [data-collection]")?.dataset.collection ?? collectionName();

/** Run the search of the address, on loading and on history navigation. */
export async function openAddress() {
  const params = readAddress();
  const collection = params.collection ?? usualCollection();
  if (collection !== collectionName()) {
    const facts = await factsFor(collection);
    if (!facts) return;
    update({ facts });
  }
  const ofEntry = history.state?.loaded === LOADED ? queries[history.state.file] : null;
  const query = queryOf(params) ?? ofEntry ?? null;
  const rounds = (query && history.state?.rounds) ?? (query && params.said ? [params.said] : []);
  update({ settings: settingsOf(params, state.facts), query, opened: query, rounds, marks: parse((query && history.state?.marks) ?? rounds.at(-1) ?? ""), problem: null });
  if (query) return run();
  restart();
  update({ answer: null, busy: null });
  callParts("answer", null);
}
