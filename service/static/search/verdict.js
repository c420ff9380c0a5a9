// What the results say together: what they show, what most of the nearest share, and how like the collection the query is.

import { titleOf } from "../card.js";
import { tr } from "../translate.js";

const USUAL_KEY = "label";
const PLACE_KEYS = ["body_part", "anatomy", "view_position", "laterality"]; // less than a finding
const PLAIN_KEYS = ["modality", "age", "sex", "series_description"]; // no findings
const TECHNICAL_KEYS = ["photometric", "secondary_capture", "unusable", "intake"]; // say nothing of a patient
const MODALITY = /^(CR|CT|CXR|DR|DX|MG|MRI?|NM|PET|PT|RF|US|XA|XR)$/i;
const FINDING = ""; // in place of a label key
const MOST_VALUES = 7; // more are one part, "other values"
const FAMILIAR = 0.2; // likeness of four in five images of a collection
const UNUSUAL = 0.05;
const NEAREST = 10; // results that agreement is counted among, as the service counts it
const SAME_DISTANCE = 1e-4; // share of a distance by which those of copies of a picture differ

/** [value, count] of the different values of a list. */
function counted(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts];
}

/** The keys whose shares may be shown: the finding of the cards, "label", the most frequent; places, and those that are no findings, last. */
export function shareKeys(results) {
  const last = (key) => 2 * PLAIN_KEYS.includes(key) + PLACE_KEYS.includes(key) - (key === USUAL_KEY);
  const order = ([a, countOfA], [b, countOfB]) => last(a) - last(b) || countOfB - countOfA;
  const named = results.flatMap(({ labels }) => Object.keys(labels)).filter((key) => !TECHNICAL_KEYS.includes(key));
  const keys = counted(named).sort(order).map(([key]) => key);
  return results.some(({ card }) => card?.finding) ? [FINDING, ...keys] : keys;
}

/** The parts {name, count, rest} of a key among results, the most frequent first; rest: other values together, or results without one. */
export function shareParts(results, key) {
  const findingOf = (hit) => (hit.card?.finding ? titleOf(hit) : undefined);
  const labelOf = ({ labels }) => (Object.hasOwn(labels, key) ? labels[key] : undefined); // a key may be "constructor"
  const counts = counted(results.map(key === FINDING ? findingOf : labelOf));
  const sorted = counts.filter(([value]) => value !== undefined).sort((a, b) => b[1] - a[1]);
  const parts = sorted.splice(0, MOST_VALUES).map(([name, count]) => ({ name, count, rest: false }));
  const [others, known] = [sorted, parts].map((list) => list.reduce((sum, each) => sum + (each.count ?? each[1]), 0));
  if (others) parts.push({ name: tr("other values"), count: others, rest: true });
  const missing = results.length - known - others;
  if (missing) parts.push({ name: key ? tr("without {key}", { key }) : tr("without a finding"), count: missing, rest: true });
  return parts;
}

/** How like the collection a query is {title, level}: level is "usual", "unusual" or "outlier"; null if that is not known. */
export function verdictOf({ likeness, outlier }) {
  if (outlier) return { level: "outlier", title: tr("Nothing here looks like this"), text: tr("These are the least unlike images, not similar ones.") };
  if (likeness === null || likeness === undefined) return null;
  const closer = Math.min(Math.round((1 - likeness) * 100), 99);
  if (likeness < UNUSUAL) return { level: "unusual", title: tr("Unusual: {closer} in 100 images here have a closer match", { closer }) };
  if (likeness < FAMILIAR) return { level: "unusual", title: tr("Less usual: {closer} in 100 images here have a closer match", { closer }) };
  return { level: "usual", title: tr("Familiar: {tenths} in 10 images here have no closer match", { tenths: Math.min(Math.round(likeness * 10), 9) }) };
}

/** The nearest results with a say of their own: one of each patient, and one of those that are as far from the query, as copies of one picture are. */
function independent(results) {
  const isCopy = (hit, other) => (hit.patient && hit.patient === other.patient) || Math.abs(hit.distance - other.distance) <= SAME_DISTANCE * other.distance;
  return results.reduce((kept, hit) => (kept.length < NEAREST && !kept.some((other) => isCopy(hit, other)) ? [...kept, hit] : kept), []);
}

/** How most of the nearest results are labelled, where that leads among all, or that they do not agree; "" where nothing is known of them, and where a filter or judgements asked for it. */
export function headlineOf({ results, where = [], rounds = [] }) {
  const [key] = shareKeys(results);
  if (where.length || rounds.length || key === undefined || PLAIN_KEYS.includes(key)) return "";
  const nearest = independent(results);
  const [near, all] = [nearest, results].map((list) => shareParts(list, key).filter(({ rest }) => !rest));
  if (near.reduce((sum, { count }) => sum + count, 0) < 2) return "";
  const [{ name, count }] = near;
  if (MODALITY.test(name)) return "";
  if (name !== all[0].name || count <= nearest.length / 2) return tr("The results do not agree");
  return tr("{agreeing} of the {answers} nearest are labelled “{value}”", { agreeing: count, answers: nearest.length, value: name });
}

/** The agreement of an answer on its most frequent finding, else on its usual label; undefined without one, and where copies agree with each other. */
export function agreementOn({ results, agreement }) {
  const [key] = shareKeys(results);
  const nearest = results.slice(0, NEAREST);
  if (key === undefined || independent(nearest).length < nearest.length) return undefined;
  const [first] = shareParts(results, key);
  return agreement.find((each) => each.value === first.name && (key === FINDING || each.key === key));
}

/** How often an agreement {right, low, high, images} like that of the first results was right, and a caution: [text, text]; [] where little is known. */
export function agreementOf(agreement) {
  if (!agreement || agreement.agreeing <= agreement.answers / 2 || agreement.right === null || agreement.low === undefined || agreement.low === null) return [];
  const { right, low, high, images } = agreement;
  const percent = { right: Math.min(Math.round(right * 100), 99), low: Math.floor(low * 100), high: Math.ceil(high * 100) };
  return [tr("Tested on {images} images here whose nearest agreed as much: {right} % had that label themselves (95 % CI {low} to {high} %).", { images, ...percent }), tr("Not a probability for this patient.")];
}
