// Judgements of the images of a batch before they are sent: 1, belongs, or -1, does not, by image id; and the curve of images found by images judged.

/** The judgements with one more; the same one again takes it back. */
export function judged(marks, id, value) {
  const changed = new Map(marks);
  if (!value || changed.get(id) === value) changed.delete(id);
  else changed.set(id, value);
  return changed;
}

/** Belongs, does not, open: what a tap on the picture goes through. */
export const stepped = (marks, id) => judged(marks, id, { 1: -1, "-1": 0 }[marks.get(id)] ?? 1);

/** The judgements of all images; those that were open have this one. */
export const filled = (marks, ids, value) => new Map(ids.map((id) => [id, marks.get(id) ?? value]));

/** In the form of the API, in the order of the images. */
export const asList = (marks, ids) => ids.filter((id) => marks.has(id)).map((id) => ({ image_id: id, relevant: marks.get(id) > 0 }));

const MOST = 200; // points

/** Numbers found after each judgement of a text such as "1101", from 0. */
export function foundAfter(history) {
  const counts = [0];
  for (const each of history) counts.push(counts.at(-1) + Number(each));
  return counts;
}

/** The points of a polyline: counts in a box of width and height, with a margin of `inset`. */
export function curvePoints(counts, { width, height, inset, top }) {
  const last = Math.max(counts.length - 1, 1);
  const most = Math.max(top, counts.at(-1), 1);
  const step = Math.max(1, Math.ceil(counts.length / MOST));
  const kept = counts.map((count, index) => [index, count]).filter(([index]) => index % step === 0 || index === counts.length - 1);
  const x = (index) => inset + (index / last) * (width - 2 * inset);
  const y = (count) => height - inset - (count / most) * (height - 2 * inset);
  return { line: kept.map(([index, count]) => `${x(index).toFixed(1)},${y(count).toFixed(1)}`).join(" "), level: (count) => y(Math.min(count, most)) };
}
