// The curve of images found by images judged.

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
