// What the results say together: how like the collection the query is, and the shares of a label. Without the document.

import { titleOf } from "../card_words.js";
import { tr } from "../translate.js";

const USUAL_KEY = "label";
const PERSON_KEYS = ["age", "sex", "series_description"];
const MOST_VALUES = 7; // more are one part, "other values"

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

const FAMILIAR = 0.2; // likeness of four in five images of a collection
const UNUSUAL = 0.05;
const FINDING = ""; // in place of a label key

/** The keys whose shares may be shown, the finding of the cards first. */
export function shareKeys(results) {
  return [...(results.some(({ card }) => card?.finding) ? [FINDING] : []), ...labelKeys(results)];
}

/** The parts {name, count, share, rest} of a key among results, the most frequent first. */
export function shareParts(results, key) {
  const named = key === FINDING ? results.map((hit) => ({ labels: hit.card?.finding ? { [key]: titleOf(hit) } : {} })) : results;
  return shares(named, key).map(({ value, count, share }) => ({
    name: value === undefined ? (key ? tr("without {key}", { key }) : tr("without a finding")) : value === null ? tr("other values") : value,
    ...{ count, share, rest: value === undefined || value === null },
  }));
}

/** How like the collection a query is {title, level}: level is "usual", "unusual" or "outlier"; null if that is not known. */
export function verdictOf({ likeness, outlier }) {
  if (likeness === null || likeness === undefined) return null;
  if (outlier) return { level: "outlier", title: tr("Nothing here looks like this"), text: tr("These are the least unlike images, not similar ones.") };
  const tenths = Math.round(likeness * 10);
  if (likeness < UNUSUAL) return { level: "unusual", title: tr("Unusual here: few images are as far from all others") };
  if (likeness < FAMILIAR || tenths < 1) return { level: "unusual", title: tr("Less usual here: most images have a closer match") };
  return { level: "usual", title: tr("Familiar: closer than {tenths} in 10 images here", { tenths: Math.min(tenths, 9) }) };
}

/** The agreement of an answer on its most frequent finding, else on its usual label; undefined without one. */
export function agreementOn({ results, agreement }) {
  const [key] = shareKeys(results);
  if (key === undefined) return undefined;
  const [first] = shareParts(results, key);
  return agreement.find((each) => each.value === first.name && (key === FINDING || each.key === key));
}

/** A sentence on the agreement {key, value, agreeing, answers, right, low, high, images} of the first results; "" where little is known. */
export function agreementOf(agreement) {
  if (!agreement || agreement.right === null || agreement.low === undefined || agreement.low === null) return "";
  const { value, agreeing, answers, right, low, high, images } = agreement;
  const percent = { right: Math.min(Math.round(right * 100), 99), low: Math.floor(low * 100), high: Math.ceil(high * 100) };
  return tr("{agreeing} of {answers} agree on {value}. Of {images} such searches with images here, {right} % were right ({low} to {high} %).", { agreeing, answers, value, images, ...percent });
}
