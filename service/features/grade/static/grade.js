// The predicted grade of the query, and its two neighbours among the graded images.

import { byId, element, replaceIfMissing } from "./dom.js";
import { ApiError, form, request } from "./api.js";
import { current } from "./collection.js";
import { addPart } from "./page_parts.js";
import { fixed, number, tr, trn } from "./translate.js";

const REFUSED = 422; // an image that is unlike the graded ones

/** The labels that a grader was trained on. */
function gradeColumns() {
  return [...byId("grade-columns").options].map((option) => option.value);
}

/** Hide the grades. */
function clear() {
  byId("grading").hidden = true;
  byId("grades").replaceChildren();
}

/**
 * Show the grades of a query {image | file, frame, window, region}, or why there is none; several files and a region of a
 * collection image are not graded.
 */
async function show({ query, addressOf, signal }) {
  if (query.files || (query.image && query.region)) return;
  for (const column of gradeColumns()) {
    let shown;
    try {
      shown = describe(await grade(query, column, signal), addressOf);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== REFUSED) throw error;
      shown = [element("p", "grade", element("strong", "", column), ` · ${error.message}`)];
    }
    if (signal.aborted) return;
    byId("grades").append(...shown);
    byId("grading").hidden = false;
  }
}

/** Grade a query {image | file, frame, window, region} by the graded images; `column` is the label with the grades. */
async function grade(query, column, signal) {
  const params = { grade_column: column };
  if (current()) params.collection = current();
  let options;
  if (query.image) {
    const body = JSON.stringify({ ...params, image_id: query.image });
    options = { method: "POST", headers: { "Content-Type": "application/json" }, body, signal };
  } else {
    const fields = form(query);
    for (const [name, value] of Object.entries(params)) fields.set(name, value);
    options = { method: "POST", body: fields, signal };
  }
  return (await request("/v1/grade", options)).json();
}

function describe(result, addressOf) {
  const values = { low: fixed(result.low, 1), high: fixed(result.high, 1), percent: Math.round(result.coverage * 100) };
  const line = element(
    "p",
    "grade",
    element("strong", "", `${result.grade_column} ${fixed(result.grade, 1)}`),
    ` · ${tr("from {low} to {high}, an interval that contains the clinician's grade for {percent} % of images", values)}`,
    element("span", "hint", ` · ${trn("{ranker}, {count} graded image", "{ranker}, {count} graded images", result.graded, { ranker: result.ranker })}`),
  );
  const list = element("ul", "grid neighbours");
  list.setAttribute("role", "list");
  const neighbours = [[tr("Next milder"), result.lighter], [tr("Next more severe"), result.severer]];
  list.append(...neighbours.filter(([, hit]) => hit).map(([title, hit]) => neighbourCard(title, hit, addressOf)));
  return [line, list];
}

function neighbourCard(title, hit, addressOf) {
  const picture = element("img");
  picture.alt = "";
  replaceIfMissing(picture);
  picture.src = hit.links.thumbnail;
  const text = element("span", "words", element("span", "label", `${title}: ${number(hit.grade, { maximumFractionDigits: 2 })}`));
  const link = element("a", "card", element("span", "film", picture), text);
  link.href = addressOf(hit.image_id);
  link.dataset.image = hit.image_id;
  return element("li", "", link);
}

addPart({ clear, show });
