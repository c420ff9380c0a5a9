// The curve of images found by images judged, as points of an SVG.

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

function shape(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** Draw the curve of a history, and the estimated number of all with its interval {low, expected, high}. */
export function drawCurve(svg, history, total) {
  const counts = foundAfter(history);
  const box = { width: 280, height: 140, inset: 8, top: Math.min(total.high, 2 * total.expected) };
  const { line, level } = curvePoints(counts, box);
  const [high, low] = [level(total.high), level(total.low)];
  svg.replaceChildren(
    shape("rect", { class: "interval", x: box.inset, width: box.width - 2 * box.inset, y: high, height: Math.max(low - high, 1) }),
    shape("line", { class: "expected", x1: box.inset, x2: box.width - box.inset, y1: level(total.expected), y2: level(total.expected) }),
    shape("polyline", { class: "found", points: line }),
  );
}
