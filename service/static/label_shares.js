// Shares of label values among results, and what the first of them have in common. Without the document.

import { fixed, tr } from "./translate.js";

const USUAL_KEY = "label";
const PERSON_KEYS = ["age", "sex", "series_description"];
const MOST_VALUES = 7; // more are one part, "other values"
const LEAST_LIKENESS = 0.05; // of a usual query; 1 in 20 images of the collection has less

/** The label keys of results, "label" first, then the most frequent; those of persons, which say nothing of a picture, last. */
export function labelKeys(results) {
  const counts = new Map();
  for (const { labels } of results) {
    for (const key of Object.keys(labels)) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const order = ([a, countOfA], [b, countOfB]) =>
    (b === USUAL_KEY) - (a === USUAL_KEY) || PERSON_KEYS.includes(a) - PERSON_KEYS.includes(b) || countOfB - countOfA;
  return [...counts].sort(order).map(([key]) => key);
}

/**
 * The values of a label among results as {value, count, share}, the most frequent first.
 * value is null for other values together, and undefined for results without the label.
 */
export function shares(results, key) {
  const counts = new Map();
  for (const { labels } of results) {
    const value = Object.hasOwn(labels, key) ? labels[key] : undefined; // a key may be "constructor"
    counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  const missing = counts.get(undefined);
  counts.delete(undefined);
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  const others = sorted.splice(MOST_VALUES).reduce((sum, [, count]) => sum + count, 0);
  if (others) sorted.push([null, others]);
  if (missing) sorted.push([undefined, missing]);
  return sorted.map(([value, count]) => ({ value, count, share: count / results.length }));
}

/** A sentence about the agreement {value, agreeing, answers, right, images} of the first results; "" without one. */
export function agreementText(agreement) {
  if (!agreement) return "";
  const { value, agreeing, answers, right, images } = agreement;
  if (right === null) return tr("{agreeing} of the first {answers} results agree on {value}.", { agreeing, answers, value });
  const percent = Math.min(Math.round(right * 100), 99); // no number of searches makes it certain
  return tr(
    "{agreeing} of the first {answers} results agree on {value}: right in {percent} % of {images} such searches with images of this collection. Not a diagnosis.",
    { agreeing, answers, value, percent, images },
  );
}

/** How like the collection a query {likeness, outlier} is, in a few words; "" if that is not known. */
export function likenessText({ likeness, outlier }) {
  if (likeness === null || likeness === undefined) return "";
  if (outlier) return tr("Nothing here looks like your image");
  const percent = fixed(likeness * 100, likeness < 0.1 ? 1 : 0);
  if (likeness < LEAST_LIKENESS) return tr("Unusual for this collection: likeness {percent} %", { percent });
  return tr("Usual for this collection: likeness {percent} %", { percent });
}
