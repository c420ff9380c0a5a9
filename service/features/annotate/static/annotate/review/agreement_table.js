// The agreement of the annotators: of all, and of each two.

import { fixed, number, tr, trn } from "../../translate.js";
import { html, nothing } from "../../vendor/lit.js";

const decimals = (value) => (value === null ? "–" : fixed(value, 2));

const row = ({ one, other, pairs, agreed, kappa }) =>
  html`<tr><td>${tr("{one} and {other}", { one, other })}</td><td>${number(pairs)}</td><td>${number(agreed)} (${number(agreed / pairs, { style: "percent" })})</td><td>${decimals(kappa)}</td></tr>`;

function part({ pairs, people, alpha, between }, summary) {
  if (!pairs) return nothing;
  const titles = [tr("People"), tr("Both judged"), tr("Same answer"), tr("Cohen's κ")];
  return html`<p>${summary(pairs, { people, alpha: decimals(alpha) })}</p>
    <table><thead><tr>${titles.map((title) => html`<th scope="col">${title}</th>`)}</tr></thead><tbody>${between.filter((each) => each.pairs).map(row)}</tbody></table>`;
}

const ofPairs = (count, values) => trn("{people} people, {count} pair judged by two or more: Krippendorff's α {alpha}", "{people} people, {count} pairs judged by two or more: Krippendorff's α {alpha}", count, values);
const ofGrades = (count, values) => trn("{people} people, {count} image graded by two or more: Krippendorff's α {alpha}", "{people} people, {count} images graded by two or more: Krippendorff's α {alpha}", count, values);

/** The agreement on pairs and on single images, from the service. */
export function agreementTables({ judgements, grades }) {
  if (!judgements.pairs && !grades.pairs) return html`<p class="hint">${tr("Nothing was judged by two people yet.")}</p>`;
  return [part(judgements, ofPairs), part(grades, ofGrades)];
}
