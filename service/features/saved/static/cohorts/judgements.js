// Judgements of the images of a batch before they are sent: 1, belongs, or -1, does not, by image id.

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
