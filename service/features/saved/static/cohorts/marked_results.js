// The way from judged results to a cohort of all images like the relevant ones.

import { asText, parse } from "../rounds.js";
import { collectionName } from "../search/run.js";
import { tr } from "../translate.js";
import { html } from "../vendor/lit.js";
import { openCohorts } from "./start_cohort.js";

/** The images that a cohort begins with: the query, if it is one of the collection, and the judged results. */
export function startOf({ query, marks, collection, where }) {
  const judged = [...parse(marks)];
  const relevant = judged.filter(([, value]) => value > 0).map(([id]) => id);
  const irrelevant = judged.filter(([, value]) => value < 0).map(([id]) => id);
  const isExample = query?.image && !query.region && !irrelevant.includes(query.image);
  return { collection, where, relevant: isExample ? [...new Set([query.image, ...relevant])] : relevant, irrelevant };
}

/** The button of the bar of judgements. */
export function button({ query, marks, settings }) {
  const start = startOf({ query, marks: asText(marks), collection: collectionName(), where: settings.where });
  return html`<button class="button" type="button" id="find-all" ?disabled=${!start.relevant.length} @click=${() => openCohorts(start)}>${tr("Find all of these …")}</button>`;
}
