// A search of the page as the content of a case of the API, and back.

import { asText } from "../rounds.js";
import { judgements } from "../search/search_fields.js";

const MAX_ANSWERS = 200; // that a case keeps
const MAX_ROUNDS = 50;

/** Judgements of the API as text of rounds.js; those without a direction are left out. */
const judgementText = (list) =>
  asText(new Map(list.filter(({ relevance }) => relevance).map(({ image_id, relevance }) => [image_id, Math.sign(relevance)])));

/**
 * The content of a case. query: as of search_state.js; params: what was searched with; answer: of the API;
 * rounds, marks: as the history entry has them.
 */
export function toContent({ query, params, answer, rounds, marks }) {
  const search = { k: params.k, rerank: params.rerank, parameters: params.parameters, where: params.where };
  if (params.group_by) search.group_by = params.group_by;
  if (params.exclude_own_study) search.exclude_own_study = true;
  if (query.image) search.image_id = query.image;
  if (query.text) search.text = query.text;
  if (query.region) search.region = query.region;
  if (query.file && query.frame > 1) search.frame = query.frame;
  if (query.file && query.window) search.window = query.window;
  return {
    search,
    rounds: rounds.slice(-MAX_ROUNDS).map(judgements),
    marks: judgements(marks),
    method: answer.rerank.method,
    answers: answer.results
      .slice(0, MAX_ANSWERS)
      .map(({ rank, image_id, score, distance }) => ({ rank, image_id, score, distance })),
  };
}

/** Whether the study of the query is among the results where the page usually leaves it out. */
const isOwnIn = ({ text, group_by: group, exclude_own_study: isOut }) => !text && !isOut && ["patient", "study"].includes(group);

/** The parameters of the address of a case's search, as address.js writes them. */
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

/** The history entry with the rounds and marks of a case. */
export function historyEntry({ rounds, marks }) {
  return { rounds: rounds.map(judgementText), marks: judgementText(marks) };
}
