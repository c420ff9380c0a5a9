// What is shown beside the query: answers, waiting, nothing, a problem, or the start.

import { column, element, ranks, skeleton } from "./answers.js";
import { Problem } from "./service.js";

const at = (id) => document.getElementById(id);
const PARTS = ["bar", "notes", "problem", "nothing", "start", "columns"];

/** Show these parts and no others. */
export function only(...ids) {
  for (const id of PARTS) at(id).hidden = !ids.includes(id);
}

/** Grey cards, until there is more to tell. */
export function wait(count) {
  at("columns").classList.remove("both");
  at("columns").replaceChildren(skeleton(count));
  at("columns").setAttribute("aria-busy", "true");
  at("status").textContent = "Searching";
  only("columns");
}

/** An error, and what to do. */
export function problem(error) {
  const known = error instanceof Problem;
  const [title, words] = at("problem").children;
  title.textContent = known ? error.title : "The page met an error it did not expect";
  words.textContent = known ? error.message : "Load the page again, and search once more.";
  at("retry").hidden = known && !error.passing;
  at("columns").replaceChildren();
  only("problem");
  at("status").textContent = "";
}

/** No image fits; where: the conditions. */
export function nothing(where) {
  at("nothing").querySelector("p").textContent = where.length
    ? `No other image of the collection fits ${where.join(" and ")}. Change the filter or leave it empty.`
    : "There is no other image in the collection. Index some, then search again.";
  at("unfilter").hidden = !where.length;
  only("nothing");
  at("status").textContent = "No answers";
}

/** The answers {after, before, k}; view: "before", "after" or "both"; addressOf(image): of a search from one. */
export function answers({ after, before, k }, view, addressOf) {
  const compared = after.rerank.method !== "none";
  const columns = [];
  if (!compared) columns.push(column("Answers", after.results, null, addressOf));
  if (compared && view !== "after") {
    const earlier = before ? column("Before re-ranking", before.results.slice(0, k), null, addressOf) : skeleton(k);
    columns.push(earlier);
  }
  if (compared && view !== "before") {
    columns.push(column("After re-ranking", after.results, before && ranks(before.results), addressOf));
  }
  const had = document.activeElement?.dataset.image;
  at("columns").classList.toggle("both", columns.length > 1);
  at("columns").replaceChildren(...columns);
  if (had && document.activeElement === document.body) {
    [...at("columns").querySelectorAll(".card")].find((card) => card.dataset.image === had)?.focus();
  }
  at("views").hidden = !compared;
  summarise(after, compared && before);
  only("bar", "columns", ...(after.rerank.notes.length ? ["notes"] : []));
  at("status").textContent = `${after.results.length} answers`;
}

/** Bring the answers into sight, where they stand below the query and not beside it. */
export function reach() {
  const narrow = at("query").getBoundingClientRect().bottom <= at("answers").getBoundingClientRect().top;
  if (narrow) at("answers").scrollIntoView();
  else scrollTo({ top: 0 });
}

/** What the signs on the answers say, in sum. */
function moves(answer, before) {
  const earlier = ranks(before.results);
  const found = { up: 0, down: 0, new: 0 };
  for (const { image_id, rank } of answer.results) {
    const was = earlier.get(image_id);
    if (was === undefined) found.new += 1;
    else if (was !== rank) found[was > rank ? "up" : "down"] += 1;
  }
  const signs = [found.up && `▲ ${found.up} up`, found.down && `▼ ${found.down} down`];
  signs.push(found.new && `${found.new} new`);
  return signs.filter(Boolean).join(" · ") || "nothing moved";
}

function summarise(answer, before) {
  const times = answer.timings_ms;
  const stages = Object.entries(times).filter(([stage]) => stage !== "total");
  at("summary").replaceChildren(
    element("strong", "", `${answer.results.length} answers`),
    ` in ${times.total.toFixed(0)} ms`,
    before ? element("span", "moves", ` · ${moves(answer, before)}`) : "",
    element("span", "stages", stages.map(([stage, ms]) => `${stage} ${ms.toFixed(1)}`).join(" · ")),
  );
  at("notes").replaceChildren(...answer.rerank.notes.map((note) => element("li", "", note)));
}
