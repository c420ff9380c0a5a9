// Shares of label values among results. Without the document.

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
