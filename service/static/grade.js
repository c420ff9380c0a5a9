// The grade of the query among the graded images of the collection, and its two neighbours.

import { element, standIn } from "./answers.js";
import { grade } from "./service.js";

const at = (id) => document.getElementById(id);

/** The labels that grades were learnt from. */
function columns() {
  return [...at("grade-columns").options].map((option) => option.value);
}

/** No grade is shown. */
export function clear() {
  at("grading").hidden = true;
  at("grades").replaceChildren();
}

/** Show what the query {image | file, frame, window, region} is graded as; a region of an image is not graded. */
export async function show(query, addressOf, signal) {
  if (query.image && query.region) return;
  for (const column of columns()) {
    const found = await grade(query, column, signal);
    if (signal.aborted) return;
    at("grades").append(...of(found, addressOf));
    at("grading").hidden = false;
  }
}

function of(found, addressOf) {
  const share = `${Math.round(found.coverage * 100)} %`;
  const line = element(
    "p",
    "grade",
    element("strong", "", `${found.grade_column} ${found.grade.toFixed(1)}`),
    ` · from ${found.low.toFixed(1)} to ${found.high.toFixed(1)}, which holds the clinician's grade of ${share} of images`,
    element("span", "hint", ` · ${found.ranker}, ${found.graded} graded images`),
  );
  const list = element("ul", "grid neighbours");
  list.setAttribute("role", "list");
  const sides = [["Next lighter", found.lighter], ["Next severer", found.severer]];
  list.append(...sides.filter(([, one]) => one).map(([words, one]) => neighbour(words, one, addressOf)));
  return [line, list];
}

function neighbour(words, one, addressOf) {
  const picture = element("img");
  picture.alt = "";
  standIn(picture);
  picture.src = one.links.thumbnail;
  const text = element("span", "words", element("span", "label", `${words}: ${Number(one.grade.toFixed(2))}`));
  const link = element("a", "card", element("span", "film", picture), text);
  link.href = addressOf(one.image_id);
  link.dataset.image = one.image_id;
  return element("li", "", link);
}
