// The way from judged results to a cohort of all images like the relevant ones.

import { current } from "../collection.js";
import { byId } from "../dom.js";
import * as feedback from "../feedback.js";
import * as filters from "../filters.js";
import { parse } from "../rounds.js";
import { state } from "../search_state.js";
import { openCohorts } from "./start_cohort.js";

/** The images that a cohort begins with: the query, if it is one of the collection, and the judged results. */
export function startOf({ query, marks, collection, where }) {
  const judged = [...parse(marks)];
  const relevant = judged.filter(([, value]) => value > 0).map(([id]) => id);
  const irrelevant = judged.filter(([, value]) => value < 0).map(([id]) => id);
  const isExample = query?.image && !query.region && !irrelevant.includes(query.image);
  return { collection, where, relevant: isExample ? [...new Set([query.image, ...relevant])] : relevant, irrelevant };
}

/** Connect the button. */
export function install() {
  byId("find-all").addEventListener("click", () => {
    const start = startOf({ query: state.query, marks: feedback.kept().marks, collection: current(), where: filters.read() });
    if (start.relevant.length) openCohorts(start);
  });
}
