// The agreement of the annotators: of all, and of each two.

import { element } from "/static/dom.js";
import { fixed, number, tr, trn } from "/static/translate.js";

const decimals = (value) => (value === null ? "–" : fixed(value, 2));

function table({ between }) {
  const titles = [tr("People"), tr("Both judged"), tr("Same answer"), tr("Cohen's κ")];
  const head = element("tr", "", ...titles.map((title) => Object.assign(element("th", "", title), { scope: "col" })));
  const rows = between
    .filter(({ pairs }) => pairs)
    .map(({ one, other, pairs, agreed, kappa }) => {
      const share = number(agreed / pairs, { style: "percent" });
      const cells = [tr("{one} and {other}", { one, other }), number(pairs), `${number(agreed)} (${share})`, decimals(kappa)];
      return element("tr", "", ...cells.map((text) => element("td", "", text)));
    });
  return element("table", "", element("thead", "", head), element("tbody", "", ...rows));
}

function part(agreement, summary) {
  return agreement.pairs ? [element("p", "", summary), table(agreement)] : [];
}

/** The agreement on pairs and on single images, from the server. */
export function agreementParts({ judgements, grades }) {
  const values = ({ people, alpha }) => ({ people, alpha: decimals(alpha) });
  const parts = [
    ...part(
      judgements,
      trn(
        "{people} people, {count} pair judged by two or more: Krippendorff's α {alpha}",
        "{people} people, {count} pairs judged by two or more: Krippendorff's α {alpha}",
        judgements.pairs,
        values(judgements),
      ),
    ),
    ...part(
      grades,
      trn(
        "{people} people, {count} image graded by two or more: Krippendorff's α {alpha}",
        "{people} people, {count} images graded by two or more: Krippendorff's α {alpha}",
        grades.pairs,
        values(grades),
      ),
    ),
  ];
  return parts.length ? parts : [element("p", "hint", tr("Nothing was judged by two people yet."))];
}
