// What the results say together: what they show, what most of the nearest share, and how like the collection the query is.

import { titleOf, wordsOf } from "../card.js";
import { sentence } from "../problems.js";
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
const CLEAR = 0.7; // share of the nearest with one label, and of the searches for which such agreement was right
const NEAREST = 10; // results that agreement is counted among, as the service counts it
const SAME_DISTANCE = 2e-6; // difference of the squared distances of copies of a picture, by rounding

/** [value, count] of the different values of a list. */
const counted = (values) => [...new Set(values)].map((value) => [value, values.filter((each) => each === value).length]);

const placeOf = (key) => 2 * PLAIN_KEYS.includes(key) + PLACE_KEYS.includes(key) - (key === USUAL_KEY);

/** Keys in the order of what they say of a finding: "label" first, places and those that are none last; without those of the file's technique. */
export const keysInOrder = (keys) => keys.filter((key) => !TECHNICAL_KEYS.includes(key)).sort((a, b) => placeOf(a) - placeOf(b));

/** The keys whose shares may be shown: the finding of the cards, then all in order, of those alike the most frequent first. */
export function shareKeys(results) {
  const counts = counted(results.flatMap(({ labels }) => Object.keys(labels))).sort((a, b) => b[1] - a[1]);
  const keys = keysInOrder(counts.map(([key]) => key));
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
  if (missing) parts.push({ name: key ? tr("without {key}", { key: wordsOf(key) }) : tr("without a label"), count: missing, rest: true });
  return parts;
}

/** How like the collection a query is {title, level}: "usual", "unusual", "poor" or "outlier"; null if not known. Of a part, to which no whole picture is very like, only "outlier" is said. */
export function verdictOf({ likeness, outlier }, isPart = false) {
  if (outlier || (isPart && (likeness ?? 1) < UNUSUAL)) return { level: "outlier", title: isPart ? tr("Nothing like this part was found") : tr("Nothing here looks like this"), text: tr("These are the least unlike images, not similar ones.") };
  if (isPart || likeness === null || likeness === undefined) return null;
  const closer = Math.min(Math.round((1 - likeness) * 100), 99);
  if (likeness < UNUSUAL) return { level: "poor", title: tr("Poor match: {closer} in 100 images here match another one better", { closer }) };
  if (likeness < FAMILIAR) return { level: "unusual", title: tr("Unlike most images here: {closer} in 100 match another one better", { closer }) };
  return { level: "usual", title: tr("Like the images here: {tenths} in 10 match no other one better", { tenths: Math.min(Math.round(likeness * 10), 9) }) };
}

/** The nearest results with a say of their own: one of each patient but the query's, and one of those that are as far from the query, as copies of one picture are. */
function independent(results, patient) {
  const isCopy = (hit, other) => (hit.patient && hit.patient === other.patient) || Math.abs(hit.distance ** 2 - other.distance ** 2) <= SAME_DISTANCE;
  return results.filter((hit) => !patient || hit.patient !== patient).reduce((kept, hit) => (kept.length < NEAREST && !kept.some((other) => isCopy(hit, other)) ? [...kept, hit] : kept), []);
}

/**
 * What is said of results {text, rule, caution, hasTest}: how most of the nearest are labelled, or that there is no clear answer, and by which rule; null where nothing is known of them, and
 * only a caution where a filter asked for it. hasTest: how often such agreement was right belongs to it; isPart: of a picture, of which no label is said; refined: whether they follow judgements; patient: key of the query's, whose images have no say; agreement: on the first label.
 */
export function headlineOf({ results, where = [], refined = false, isPart = false, patient = null, agreement }) {
  if (refined) return { text: tr("Refined by your marks"), caution: tr("The results follow your marks: their labels are no evidence.") };
  const [key] = shareKeys(results);
  if (key === undefined || PLAIN_KEYS.includes(key)) return null;
  if (where.length) return { text: "", caution: tr("The results are what your filter lets through: their labels are no evidence.") };
  if (isPart) return null;
  const nearest = independent(results, patient);
  const [near, all] = [nearest, results].map((list) => shareParts(list, key).filter(({ rest }) => !rest));
  if (near.reduce((sum, { count }) => sum + count, 0) < 2 || MODALITY.test(near[0].name)) return null;
  const [{ name: value, count: agreeing }] = near;
  const text = tr("No clear answer: {shares} of the {answers} nearest", { shares: sharesOf(nearest, key), answers: nearest.length });
  if (agreeing < CLEAR * nearest.length) return { text, rule: tr("A label is named where {needed} of the {answers} nearest have it.", { needed: Math.ceil(CLEAR * nearest.length), answers: nearest.length }) };
  if (all[0].count > all.find(({ name }) => name === value)?.count) return { text, rule: tr("Among all results “{value}” is more frequent.", { value: all[0].name }) };
  if (rightOf(agreement) < CLEAR * agreement?.images) return { text, caution: tr("Such agreement was wrong too often here for a clear answer."), hasTest: true };
  return { text: tr("{agreeing} of the {answers} nearest are labelled “{value}”", { agreeing, answers: nearest.length, value }), caution: tr("Not a probability for this patient."), hasTest: true };
}

/** The most frequent values of results with their counts, in words; "" where there are none. */
export function sharesOf(results, key = shareKeys(results)[0]) {
  const parts = key === undefined || PLAIN_KEYS.includes(key) ? [] : shareParts(results, key).filter(({ rest }) => !rest);
  return [...parts.slice(0, 3).map(({ name, count }) => `${count} × ${name}`), ...(parts.length > 3 ? ["…"] : [])].join(", ");
}

/** The agreement of an answer on the most frequent finding of its nearest results, else on their usual label; undefined without one. */
export function agreementOn({ results, agreement }) {
  const [key] = shareKeys(results);
  const [first] = key === undefined ? [] : shareParts(results.slice(0, NEAREST), key);
  return first && agreement.find((each) => each.value === first.name && (key === FINDING || each.key === key));
}

/** Whether a search is like those that agreements were counted with: of an image like others here, whose nearest are of other patients, and no copies of each other. */
export function isCounted({ results, query }) {
  const nearest = results.slice(0, NEAREST);
  return (query?.likeness ?? 1) >= UNUSUAL && independent(nearest, query?.patient).length === nearest.length;
}

/** How many of the searches that an agreement {right, low, high, images} was counted in were right, NaN where that is not known; right: by Laplace's rule. */
const rightOf = ({ right, images } = {}) => Math.round((right ?? NaN) * (images + 2) - 1);

/** How often an agreement like that of the first results was right, and in short: {text, short}; null where little is known. */
export function testedOf(agreement) {
  const count = rightOf(agreement);
  if (Number.isNaN(count) || agreement.agreeing <= agreement.answers / 2) return null;
  const values = { count, images: agreement.images, low: Math.floor(agreement.low * 100), high: Math.ceil(agreement.high * 100) };
  return { text: tr("Tested on this collection: with agreement like this, the label was right for {count} of {images} images (95 % CI {low} to {high} %).", values), short: sentence(tr("Tested: right for {count} of {images} images", values)) };
}

/** What is said of the answer of a state: {level, title, text, caution, tested {text, short}}, each undefined or null where there is nothing to say, and `words`: all of it. */
export function summaryOf({ answer, fields, settings, shownQuery }) {
  const refined = Boolean(fields?.feedback?.length);
  const found = verdictOf(answer.query, Boolean(shownQuery.region));
  const { level } = found ?? {};
  const agreement = isCounted(answer) ? agreementOn(answer) : undefined;
  const { text: headline, rule, caution, hasTest } = (level !== "outlier" && headlineOf({ results: answer.results, where: settings.where, refined, isPart: Boolean(shownQuery.region), patient: answer.query.patient, agreement })) || {};
  const [title, text] = headline && level !== "poor" ? [headline, found?.text ?? rule] : [found?.title, found?.text ?? headline];
  const tested = hasTest ? (testedOf(agreement) ?? { text: tr("Not tested for a search like this."), short: null }) : null;
  const words = [title, text, tested?.text, caution].filter(Boolean).map(sentence).join(" ");
  return { level, title, text, caution, tested, words };
}
