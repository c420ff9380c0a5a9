// The area beside the query: results, placeholders, "no results", an error, or the start page.

import { byId, element } from "./dom.js";
import { rerankText } from "./rerank_texts.js";
import { siteNotes } from "./other_sites.js";
import { column, ranks, skeleton } from "./result_cards.js";
import { ApiError } from "./api.js";
import { fixed, language, tr, trn } from "./translate.js";

export const BEFORE = tr("Before re-ranking"); // title of the column
const allOf = new Intl.ListFormat(language, { type: "conjunction" });
const PARTS = ["bar", "notes", "problem", "nothing", "start", "columns"];

/** Show only these parts. */
export function showOnly(...ids) {
  for (const id of PARTS) byId(id).hidden = !ids.includes(id);
}

/** Show placeholders while a search runs. */
export function showWaiting(count) {
  byId("columns").classList.remove("both");
  byId("columns").replaceChildren(skeleton(count));
  byId("columns").setAttribute("aria-busy", "true");
  byId("status").textContent = tr("Searching");
  showOnly("columns");
}

/** Show an error and what to do about it. */
export function showError(error) {
  const expected = error instanceof ApiError;
  const [title, message] = byId("problem").children;
  title.textContent = expected ? error.title : tr("Something went wrong on this page");
  message.textContent = expected ? error.message : tr("Reload the page and search again.");
  byId("retry").hidden = expected && !error.temporary;
  byId("columns").replaceChildren();
  showOnly("problem");
  byId("status").textContent = "";
}

/** Show that no image matches the filter conditions. */
export function showNoResults(conditions) {
  byId("nothing").querySelector("p").textContent = conditions.length
    ? tr("No other image in the collection matches {conditions}. Change or clear the filter.", { conditions: allOf.format(conditions) })
    : tr("The collection has no other images. Index some, then search again.");
  byId("unfilter").hidden = !conditions.length;
  showOnly("nothing");
  byId("status").textContent = tr("No results");
}

/**
 * Show results {after, before, params}: with re-ranking, without (null until it has arrived), and what was searched with.
 * view: "before", "after" or "both"; addressOf(imageId): the address of a search with an image.
 */
export function showResults({ after, before, params }, view, addressOf) {
  const reranked = after.rerank.method !== "none";
  const columns = [];
  if (!reranked) columns.push(column(tr("Results"), after.results, null, addressOf));
  if (reranked && view !== "after") {
    const original = before ? column(BEFORE, before.results.slice(0, params.k), null, addressOf) : skeleton(params.k);
    columns.push(original);
  }
  if (reranked && view !== "before") {
    columns.push(column(tr("After re-ranking"), after.results, before && ranks(before.results), addressOf));
  }
  const focused = document.activeElement?.dataset.image;
  byId("columns").classList.toggle("both", columns.length > 1);
  byId("columns").replaceChildren(...columns);
  if (focused && document.activeElement === document.body) {
    [...byId("columns").querySelectorAll(".card")].find((card) => card.dataset.image === focused)?.focus();
  }
  byId("views").hidden = !reranked;
  summarise(after, reranked && before);
  showOnly("bar", "columns", ...(after.rerank.notes.length || after.sites ? ["notes"] : []));
  byId("status").textContent = trn("{count} result", "{count} results", after.results.length);
}

/** Scroll to the results if they are below the query, as on a narrow screen. */
export function scrollToResults() {
  const narrow = byId("query").getBoundingClientRect().bottom <= byId("answers").getBoundingClientRect().top;
  if (narrow) byId("answers").scrollIntoView();
  else scrollTo({ top: 0 });
}

/** Count the moves of all results. */
function summariseMoves(response, before) {
  const ranksBefore = ranks(before.results);
  const counts = { up: 0, down: 0, new: 0 };
  for (const { image_id, rank } of response.results) {
    const rankBefore = ranksBefore.get(image_id);
    if (rankBefore === undefined) counts.new += 1;
    else if (rankBefore !== rank) counts[rankBefore > rank ? "up" : "down"] += 1;
  }
  const parts = [counts.up && tr("▲ {count} up", { count: counts.up }), counts.down && tr("▼ {count} down", { count: counts.down })];
  parts.push(counts.new && tr("{count} new", { count: counts.new }));
  return parts.filter(Boolean).join(" · ") || tr("no changes");
}

/** The grouping in words. */
function onePer(by) {
  const words = { patient: tr("one per patient"), study: tr("one per study"), series: tr("one per series") };
  return words[by] ?? tr("one per {label}", { label: by.replace("label:", "") });
}

function summarise(response, before) {
  const times = response.timings_ms;
  const stages = Object.entries(times).filter(([stage]) => stage !== "total");
  const names = { decode: tr("decode"), describe: tr("describe"), search: tr("search"), rerank: tr("rerank"), sites: tr("other hospitals") };
  byId("summary").replaceChildren(
    element("strong", "", trn("{count} result", "{count} results", response.results.length)),
    response.grouping ? `, ${onePer(response.grouping.by)}` : "",
    ` ${tr("in {milliseconds} ms", { milliseconds: Math.round(times.total) })}`,
    before ? element("span", "moves", ` · ${summariseMoves(response, before)}`) : "",
    response.rerank.reason ? element("span", "reason", ` · ${tr("auto chose {method}: {reason}", { method: response.rerank.method, reason: rerankText(response.rerank.reason) })}`) : "",
    response.rerank.scope === "collection" ? "" : element("span", "reason", ` · ${rerankText(response.rerank.scope)}`),
    element("span", "stages", stages.map(([stage, ms]) => `${names[stage] ?? stage} ${fixed(ms, 1)}`).join(" · ")),
  );
  const notes = [...response.rerank.notes.map(rerankText), ...siteNotes(response.sites)];
  byId("notes").replaceChildren(...notes.map((note) => element("li", "", note)));
}
