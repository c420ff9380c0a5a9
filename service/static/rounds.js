// Rounds of judgements: each is the text of all judgements after it, as ID for relevant and -ID for not relevant, with commas.

/** The judgements of a text: 1 or -1 by image id. */
export function parse(text) {
  const entries = text.split(",").filter(Boolean);
  return new Map(entries.map((entry) => (entry.startsWith("-") ? [entry.slice(1), -1] : [entry, 1])));
}

export const asText = (marks) => [...marks].map(([image, value]) => (value < 0 ? `-${image}` : image)).join(",");

/** What each round changed: by image id 1, -1, or 0 for a judgement that was removed. */
export function changes(rounds) {
  return rounds.map((text, index) => {
    const before = parse(rounds[index - 1] ?? "");
    const after = parse(text);
    const changed = new Map([...after].filter(([image, value]) => before.get(image) !== value));
    for (const image of before.keys()) if (!after.has(image)) changed.set(image, 0);
    return changed;
  });
}

/** The rounds without one of them: what the others changed stays; a round without effect is left out. */
export function without(rounds, removed) {
  const kept = changes(rounds).filter((_, index) => index !== removed);
  const texts = [];
  const marks = new Map();
  for (const changed of kept) {
    for (const [image, value] of changed) {
      if (value) marks.set(image, value);
      else marks.delete(image);
    }
    const text = asText(marks);
    if (text !== (texts.at(-1) ?? "")) texts.push(text);
  }
  return texts;
}

/** Judgements with one more; the same one again takes it back, and so does 0. */
export function judged(marks, image, value) {
  const changed = new Map(marks);
  if (!value || changed.get(image) === value) changed.delete(image);
  else changed.set(image, value);
  return changed;
}
