// What a search asks for, from the state of the page: the fields of the API, and the address of the page, which makes searches with
// collection images shareable; and what a text in the box, or one that is pasted or dropped, stands for.

import { withFields } from "../api.js";
import { parse } from "../rounds.js";

const MAX_IN_ADDRESS = 40; // judgements; more make the address too long, and stay in the history entry
export const ALL_IMAGES = "image"; // in place of a grouping

/** The settings of a search as they are without a choice of the user; a region cut out of its image finds the least. */
export const defaultSettings = ({ k, rerank, anywhere }) => ({ k, rerank, parameters: {}, where: [], group: "patient", ownStudy: false, anywhere: Boolean(anywhere), view: "after" });

/** Judgements of a text of rounds.js in the form of the API. */
export const judgements = (text) => [...parse(text)].map(([image_id, relevance]) => ({ image_id, relevance }));

/** The judgements of the search that is shown, as text. */
export const searchedMarks = ({ rounds }) => rounds.at(-1) ?? "";

/** Whether a region is searched for at any place of the images. */
export const isAnywhere = ({ query, settings, rounds, facts }) => Boolean(facts.anywhere && settings.anywhere && query?.region && !query.files && !searchedMarks({ rounds }));

/** The method and its parameters: one that takes no judgements gives way to another one if there are some. */
function method({ query, settings, rounds, facts }) {
  const isPlain = query.text || isAnywhere({ query, settings, rounds, facts });
  if (isPlain) return query.file ? { rerank: "none" } : {}; // other kinds of searches by JSON take no method
  const chosen = facts.rerankers.find(({ name }) => name === settings.rerank);
  if (chosen && !chosen.takes_judgements && searchedMarks({ rounds })) return { rerank: "auto" };
  return { rerank: settings.rerank, ...(Object.keys(settings.parameters).length && { parameters: settings.parameters }) };
}

/** The fields of a search; extra: of features, such as {federated: true, rerank: "none"}. */
export function searchFields(state, extra = {}) {
  const { query, settings, rounds } = state;
  const fields = { k: settings.k, where: settings.where, ...method(state), ...extra };
  if (searchedMarks(state) && !query.text) fields.feedback = judgements(searchedMarks({ rounds }));
  if (isAnywhere(state)) fields.anywhere = true;
  if (fields.federated) return fields;
  if (settings.group !== ALL_IMAGES) fields.group_by = settings.group;
  if (["patient", "study"].includes(settings.group) && !settings.ownStudy && !query.text) fields.exclude_own_study = true;
  return fields;
}

/** The parameters of the page's address for a query, as writeAddress has them; defaults are left out. */
export function addressFields({ facts, settings, rounds }, query) {
  const usual = defaultSettings(facts);
  const other = (name) => (settings[name] === usual[name] ? "" : settings[name]);
  const said = rounds && query?.image ? searchedMarks({ rounds }) : "";
  return {
    collection: facts.several ? facts.collection : "",
    image: query?.image,
    region: query?.image ? query.region?.join(",") : "",
    anywhere: query?.image && query.region && settings.anywhere ? "1" : "",
    rerank: other("rerank"),
    parameters: Object.entries(settings.parameters).map(([name, value]) => `${name}=${value}`).join(";"),
    k: other("k"),
    where: settings.where.join(";"),
    group_by: other("group"),
    own: settings.ownStudy ? "1" : "",
    said: said.split(",").length <= MAX_IN_ADDRESS ? said : "",
    view: other("view"),
  };
}

/** The settings that an address names. */
export function settingsOf(params, facts) {
  const usual = defaultSettings(facts);
  const entries = (params.parameters ?? "").split(";").filter(Boolean).map((entry) => entry.split("="));
  return {
    ...usual,
    k: Math.min(Math.max(Math.round(Number(params.k)) || usual.k, 1), facts.max_results),
    rerank: ["auto", ...facts.rerankers.map(({ name }) => name)].includes(params.rerank) ? params.rerank : usual.rerank,
    parameters: Object.fromEntries(entries.map(([name, value = ""]) => [name, Number.isNaN(Number(value)) ? value : Number(value)])), // preset=paper is a text
    where: (params.where ?? "").split(";").map((text) => text.trim()).filter(Boolean),
    group: params.group_by ?? usual.group,
    ownStudy: params.own === "1",
    anywhere: params.region ? params.anywhere === "1" : usual.anywhere,
    view: ["before", "both"].includes(params.view) ? params.view : usual.view,
  };
}

/** The query that an address names: {image, region}, else null. */
export const queryOf = ({ image, region }) => (image ? { image, ...(region && { region: region.split(",").map(Number) }) } : null);

const ADDRESS_PARAMS = ["collection", "image", "region", "anywhere", "rerank", "parameters", "k", "where", "group_by", "own", "said", "view"];

export const readAddress = () => Object.fromEntries([...new URLSearchParams(location.search)].filter(([name, value]) => ADDRESS_PARAMS.includes(name) && value));

export const writeAddress = (params) => withFields("", Object.fromEntries(ADDRESS_PARAMS.map((name) => [name, params[name]]))) || location.pathname;

const ID = /^[0-9a-f]{8,64}$|^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const UID = /^\d+(\.\d+){3,}$/;

/** A part of a path, as it is where it is no valid code. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** What a text of the box is: {kind: "page", params} or {kind: "image", id} of this service, {kind: "other", address} for its other pages, {kind: "site"}, {kind: "uid"} or {kind: "words"}. */
export function kindOf(text, here) {
  if (/^https?:\/\//i.test(text) && URL.canParse(text)) {
    const link = new URL(text);
    if (link.origin !== here) return { kind: "site", host: link.host };
    const image = /^\/v1\/(?:collections\/([^/]+)\/)?images\/([^/]+)/.exec(link.pathname);
    if (image) return { kind: "image", collection: image[1] ? decoded(image[1]) : (link.searchParams.get("collection") ?? ""), id: decoded(image[2]) };
    const params = Object.fromEntries(link.searchParams);
    return link.pathname === "/" && queryOf(params) ? { kind: "page", params } : { kind: "other", address: link.href };
  }
  if (ID.test(text)) return { kind: "image", collection: "", id: text.toLowerCase() };
  if (UID.test(text)) return { kind: "uid", uid: text };
  return { kind: "words" };
}
