// The grade of the query by the graded images: one line, only where it is valid.

import { addPart } from "./page_state.js";
import { fixed, tr } from "./translate.js";
import { html, nothing } from "./vendor/lit.js";

const columns = ({ facts }) => facts.parts.grade?.columns ?? [];

/** Ask for a grade with a search of one picture. */
function include(now) {
  const { query } = now;
  return columns(now).length && !query.text && !query.files && !(query.image && query.region) ? ["grade"] : [];
}

function line({ grade_column: column, grade, low, high, coverage }) {
  const values = { low: fixed(low, 1), high: fixed(high, 1), percent: Math.round(coverage * 100) };
  return html`<p class="grade" id="grade" title=${tr("The interval contains the clinician's grade for {percent} % of images", values)}><b>${column} ${fixed(grade, 1)}</b> ${tr("({low} to {high})", values)}</p>`;
}

function lines({ answer }) {
  const found = answer?.extras?.grade;
  return found ? [found].flat().map(line) : nothing;
}

addPart({ include, lines });
