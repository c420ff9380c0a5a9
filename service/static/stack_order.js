// The order of the slices of a series that the user chose: as cbir/images/slice_order.py has it for images of a collection.

const SAME_DIRECTION = (0.5 * Math.PI) / 180;
const LEAST_APART = 1e-3; // mm
const MOST_APART = 0.1;
const SHARE_APART = 0.1; // of the mean distance of slices
const STACK = 3; // slices of a pass that lie among those of another before both are stacks of their own

function numbers(text, count) {
  const values = (text ?? "").split("\\").filter((value) => value.trim()).map(Number);
  return values.length === count && values.every(Number.isFinite) ? values : null;
}

const byNumber = (a, b) =>
  (a.number ? Number(a.number) : Infinity) - (b.number ? Number(b.number) : Infinity) || a.file.name.localeCompare(b.file.name, undefined, { numeric: true });

const byAcquisition = (a, b) => Number(a.acquisition ?? 0) - Number(b.acquisition ?? 0) || Number(a.time ?? 0) - Number(b.time ?? 0) || byNumber(a, b);

const apart = (a, b) => Math.hypot(...a.map((value, index) => value - b[index]));

function normalOf([a, b, c, d, e, f]) {
  const normal = [b * f - c * e, c * d - a * f, a * e - b * d];
  const length = Math.hypot(...normal);
  return normal.map((value) => value / length);
}

/** Group slices {directions} by these; those without any are the last group. */
function parallel(placed) {
  const groups = [];
  for (const each of placed) {
    const near = ({ directions }) => [0, 3].every((at) => apart(directions.slice(at, at + 3), each.directions.slice(at, at + 3)) <= SAME_DIRECTION);
    const group = groups.find(([first]) => near(first));
    if (group) group.push(each);
    else groups.push([each]);
  }
  return groups;
}

/** Whether stacks of slices {at} have some at one place, or run through each other. */
function overlap(first, second, tolerance) {
  if (first.some(({ at }) => second.some((each) => Math.abs(each.at - at) <= tolerance))) return true;
  if (Math.min(first.length, second.length) < STACK) return false;
  const [a, b] = [first, second].map((slices) => slices.map(({ at }) => at));
  const [low, high] = [Math.max(Math.min(...a), Math.min(...b)), Math.min(Math.max(...a), Math.max(...b))];
  return [a, b].every((places) => places.filter((place) => low <= place && place <= high).length >= STACK);
}

/** Put parts of slices {at}, one after another, into the first pass that does not overlap with them. */
function merge(parts, tolerance) {
  const passes = [];
  for (const part of parts) {
    const pass = passes.find((others) => !overlap(others, part, tolerance));
    if (pass) pass.push(...part);
    else passes.push([...part]);
  }
  return passes;
}

/** The acquisitions of slices, if all have one and none has two slices at one place; else each slice for itself. */
function partsOf(slices, tolerance) {
  const ordered = [...slices].sort(byAcquisition);
  const acquisitions = new Map();
  for (const each of ordered) acquisitions.set(each.acquisition, [...(acquisitions.get(each.acquisition) ?? []), each]);
  const meets = (part) => {
    const places = part.map(({ at }) => at).sort((a, b) => a - b);
    return places.some((place, index) => index && place - places[index - 1] <= tolerance);
  };
  const parts = [...acquisitions.values()];
  return acquisitions.has(undefined) || parts.some(meets) ? ordered.map((each) => [each]) : parts;
}

function alongNormal(group) {
  const normal = normalOf(group[0].directions);
  const slices = group.map((each) => ({ ...each, at: each.point.reduce((sum, value, index) => sum + value * normal[index], 0) }));
  const places = slices.map(({ at }) => at);
  const mean = (Math.max(...places) - Math.min(...places)) / Math.max(slices.length - 1, 1);
  const tolerance = Math.min(Math.max(SHARE_APART * mean, LEAST_APART), MOST_APART);
  return merge(partsOf(slices, tolerance), tolerance).map((pass) => pass.sort((a, b) => a.at - b.at));
}

/**
 * The slices {file, number, acquisition, time, position, orientation} of a series in order: along their normal, pass after
 * pass; stacks of other orientations, and slices without a position, by their lowest instance number. Each has its
 * position_mm along the normal, null if unknown, and the number of its stack of parallel slices, or of its pass.
 */
export function orderSlices(slices) {
  const described = slices.map((slice) => {
    const [point, directions] = [numbers(slice.position, 3), numbers(slice.orientation, 6)];
    return { slice, file: slice.file, number: slice.number, acquisition: slice.acquisition, time: slice.time, point, directions };
  });
  const isPlaced = ({ point, directions }) => point && directions && Math.hypot(...directions) > 1;
  const groups = parallel(described.filter(isPlaced).sort(byNumber));
  const rest = described.filter((each) => !isPlaced(each)).sort(byNumber);
  const ordered = groups.map((group) => [group[0], alongNormal(group)]);
  if (rest.length) ordered.push([rest[0], [rest]]);
  const passes = ordered.sort(([a], [b]) => byNumber(a, b)).flatMap(([, stacks]) => stacks);
  return passes.flatMap((pass, index) => pass.map(({ slice, at = null }) => ({ ...slice, position_mm: at, stack: index + 1 })));
}
