// What Browse lists: its requests and downloads, loading images, series and counts for the state, and changing it.

import { addressIn, fetchJson, imageAddress, jsonBody, request, seriesImages } from "../api.js";
import { callParts, state, update } from "../page_state.js";
import { saveFile } from "../theme.js";
import * as conditions from "./conditions.js";
import { ImagePages, PAGE, Selection } from "./image_pages.js";
import { openAddressed } from "./large_view.js";

export const MAX_SET = 10_000; // images of a request

const send = (path, fields, options = {}) => request(addressIn(state.facts.collection, path, fields), options);

/** Load something of the collection, or send `body` for it. */
export const load = async (path, fields, signal, body) => (await send(path, fields, { ...(body && jsonBody(body)), signal })).json();

export const slices = (uids) => seriesImages(state.facts.collection, uids);

export const record = (id) => fetchJson(imageAddress(state.facts.collection, id, "", { cards: true }));

/** Load the images with these ids; with what cards show, if `cards` is true. */
export const recordsOf = async (ids, cards, signal) => (ids.length ? (await load("images/records", { cards }, signal, { ids })).items : []);

/** Send a change of images in as many parts as it needs. */
async function sendParts(path, method, { ids, ...fields }) {
  for (let start = 0; start < ids.length; start += MAX_SET) await send(path, {}, { ...jsonBody({ ids: ids.slice(start, start + MAX_SET), ...fields }), method });
}

/** Set labels of images; null removes one. */
export const setLabels = (ids, labels) => sendParts("images", "PATCH", { ids, labels });

export const deleteImages = (ids) => sendParts("images/delete", "POST", { ids });

/** The name of the collection in addresses of pages. */
export const inLinks = () => (state.facts.several ? state.facts.collection : "");

const EXPORT_PAGE = 1000; // images of a request

/** Save {ids} or {where, sort} as a csv table. */
export async function saveTable(params) {
  saveFile("images.csv", "text/csv", await (await send("images/export", {}, jsonBody(params))).blob());
}

export const saveRecords = (records) => saveFile("images.json", "application/json", JSON.stringify(records, null, 1));

/** Save the records of all pages that load(cursor, limit) has; progress(count) is called for each. */
export async function saveAllRecords(load, progress) {
  const parts = [];
  let [cursor, count] = [null, 0];
  do {
    const page = await load(cursor, EXPORT_PAGE);
    for (const item of page.items) parts.push(count++ ? ",\n" : "", JSON.stringify(item));
    progress(count);
    cursor = page.next;
  } while (cursor !== null);
  saveFile("images.json", "application/json", ["[", ...parts, "]\n"]);
}

const SERIES = 60; // cards of a request
const FEW = 30; // values of a label that may be open at first
const OPEN = 4; // such labels that are
const FIRST = 12; // values shown of a label

let running = new AbortController();
let listed = ""; // what the list that is shown was loaded for

/** What is listed, before something is loaded. large: what the large view shows. */
export const emptyList = () => ({
  pages: new ImagePages(async () => ({ items: [], next: null })),
  selection: new Selection(),
  ...{ active: 0, sight: null, cards: null, total: null, busy: true, problem: null, large: null },
});

const addressNow = () => conditions.write(state, inLinks());

/** Change conditions, order, view or what is open, as a new history entry. */
export function change(part) {
  update(part);
  history.pushState(null, "", addressNow());
  return show();
}

/** Change the parameters of features in the address, without an entry in the history. */
export function changeOthers(part) {
  update({ others: { ...state.others, ...part } });
  history.replaceState(null, "", addressNow());
}

/** Read the address again, after a step in the history. */
export function readAddress() {
  update(conditions.read(location.search, state.facts.views));
  return show();
}

/** Run an action; its error is shown on the page. */
export async function attempt(action) {
  update({ problem: null });
  try {
    await action();
  } catch (error) {
    if (error.name !== "AbortError") update({ problem: { message: error.message, again: reload }, busy: false });
  }
}

/** Load the list anew, also if it is shown already. */
export function reload() {
  listed = "";
  return show();
}

/** Show the state: another list from its beginning, and the series that is open. */
export async function show() {
  const { where, sort, view, others } = state;
  const wanted = JSON.stringify([where, sort, view, others.area]);
  const isOther = wanted !== listed;
  listed = wanted;
  await Promise.all([isOther && list(), openAddressed(state)]); // the empty list has nothing open
}

async function list() {
  running.abort();
  running = new AbortController();
  state.pages.stop();
  const { signal } = running;
  const { where, sort, view } = state;
  const part = Promise.all(callParts("area", state)).then((found) => found.find(Boolean) ?? null); // a part of all images that a feature has chosen
  const ids = part.then((chosen) => chosen?.ids(where, sort) ?? null);
  for (const each of [part, ids]) each.catch(() => {}); // those that wait for them show the error
  const page = async (cursor, limit, cards, stop) => {
    const chosen = await ids;
    if (!chosen) return load("images", { where, sort, cursor, limit, cards }, stop);
    const [start, end] = [Number(cursor ?? 0), Number(cursor ?? 0) + limit];
    return { items: await recordsOf(chosen.slice(start, end), cards, stop), next: end < chosen.length ? String(end) : null };
  };
  update({ ...emptyList(), pages: new ImagePages((cursor, stop) => page(cursor, PAGE, true, stop)), page, part, ids, signal, done: "" });
  await Promise.all([attempt(view === "images" ? more : moreCards), count()]);
}

/** Count again what the conditions leave; `anew` where labels have changed. */
export async function count(anew = false) {
  const { where, ids, signal } = state;
  await attempt(async () => {
    const left = load("labels", { where }, signal);
    const all = where.length ? (!anew && state.keys) || load("labels", {}, signal) : left;
    const [keys, { images: number }, chosen] = await Promise.all([all, left, ids]);
    if (signal.aborted) return;
    const few = keys.items.filter(({ values, images: having }) => values > 1 && values <= FEW && values < having);
    const opened = state.opened ?? new Set(few.slice(0, OPEN).map(({ key }) => key));
    update({ keys, opened, total: chosen ? chosen.length : number });
    await Promise.all([...opened].map(fill));
  });
}

async function fill(key) {
  const { where, part, signal } = state;
  const [beside, limit] = [conditions.conditionsBeside(where, key), state.limits.get(key) ?? FIRST];
  const chosen = await part;
  const answer = await (chosen ? chosen.values(key, beside, limit) : load(`labels/${encodeURIComponent(key)}`, { where: beside, limit }, signal));
  if (!signal.aborted) update({ values: new Map(state.values).set(key, answer) });
}

/** Open or close the values of a label, or show up to `limit` of them. */
export function openFacet(key, isOpen, limit = 0) {
  const opened = new Set(state.opened);
  opened[isOpen ? "add" : "delete"](key);
  if (limit) state.limits.set(key, limit);
  update({ opened });
  if (isOpen) attempt(() => fill(key));
}

export async function more() {
  const { pages } = state;
  await pages.more().catch((error) => {
    if (pages === state.pages) throw error;
  });
  if (pages === state.pages) update({ busy: false });
}

export async function moreCards() {
  const { view, where, cards, signal } = state;
  const { items, next } = await load("series", { level: view, where, limit: SERIES, cursor: cards?.next }, signal);
  if (!signal.aborted) update({ cards: { items: [...(cards?.items ?? []), ...items], next }, busy: false });
}
