// The elements of a DICOM file that group slices into series (PS3.5, section 7; PS3.10, section 7); and the order of the slices of a series
// that the user chose, as cbir/images/slice_order.py has it for images of a collection.

const LONG = new Set(["OB", "OD", "OF", "OL", "OV", "OW", "SQ", "SV", "UC", "UN", "UR", "UT", "UV"]);
const UNDEFINED = 0xffffffff;
const ITEM = 0xfffee000;
const END_OF_ITEM = 0xfffee00d;
const MAX_DEPTH = 32; // of sequences in sequences
const SYNTAX = 0x00020010;
const NAMES = {
  0x00080016: "sopClass",
  0x00080032: "time",
  0x00080060: "modality",
  0x0020000e: "series",
  0x00200012: "acquisition",
  0x00200013: "number",
  0x00200032: "position",
  0x00200037: "orientation",
  0x00280008: "frames",
};
const LONGEST = 128; // bytes of a value: six numbers of 16 characters, and what is between them
const LAST = 0x00280008;
const EXPLICIT_LITTLE = "1.2.840.10008.1.2.1";
const IMPLICIT_LITTLE = "1.2.840.10008.1.2";
const UNREAD = ["1.2.840.10008.1.2.2", "1.2.840.10008.1.2.1.99"]; // big endian, deflated

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
  }

  tag() {
    const tag = this.view.getUint16(this.at, true) * 0x10000 + this.view.getUint16(this.at + 2, true);
    this.at += 4;
    return tag;
  }

  /** Read the header of an element; afterwards `at` is where its value starts. */
  header(explicit) {
    const tag = this.tag();
    if (!explicit || tag >= ITEM) {
      this.at += 4;
      return { tag, length: this.view.getUint32(this.at - 4, true), explicit };
    }
    const type = String.fromCharCode(this.bytes[this.at], this.bytes[this.at + 1]);
    const long = LONG.has(type);
    const length = long ? this.view.getUint32(this.at + 4, true) : this.view.getUint16(this.at + 2, true);
    this.at += long ? 8 : 4;
    return { tag, length, explicit: type !== "UN" };
  }

  text(length) {
    const bytes = this.bytes.subarray(this.at, this.at + length);
    return String.fromCharCode(...bytes).replace(/[\0 ]+$/, "").trim();
  }

  /** Go behind the value of an element, which may be a sequence of undefined length. */
  skip({ length, explicit }, depth = 0) {
    if (length !== UNDEFINED) return void (this.at += length);
    if (depth > MAX_DEPTH) throw new RangeError("too deep");
    for (;;) {
      const item = this.header(explicit);
      if (item.tag !== ITEM) return; // the end of the sequence
      if (item.length !== UNDEFINED) this.at += item.length;
      else for (let inner = this.header(explicit); inner.tag !== END_OF_ITEM; inner = this.header(explicit)) this.skip(inner, depth + 1);
    }
  }
}

/**
 * {sopClass, time, modality, series, acquisition, number, position, orientation, frames} of the first bytes of a DICOM file, as text; a name is absent where the
 * file, or its beginning, lacks it. Big-endian and deflated files give {}.
 */
export function dicomHeader(bytes) {
  const found = {};
  const reader = new Reader(bytes);
  if (String.fromCharCode(...bytes.subarray(128, 132)) === "DICM") reader.at = 132;
  let syntax = /[A-Z]/.test(String.fromCharCode(bytes[reader.at + 4])) ? EXPLICIT_LITTLE : IMPLICIT_LITTLE;
  try {
    while (reader.at < bytes.length) {
      const inMeta = reader.view.getUint16(reader.at, true) === 2;
      if (!inMeta && UNREAD.includes(syntax)) return {};
      const element = reader.header(inMeta || syntax !== IMPLICIT_LITTLE);
      if (element.tag > LAST) break;
      if (element.tag === SYNTAX) syntax = reader.text(element.length);
      if (NAMES[element.tag] && element.length <= LONGEST) found[NAMES[element.tag]] = reader.text(element.length);
      reader.skip(element);
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // the bytes end here, or are damaged: the service says so
  }
  return found;
}

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

/** Put parts of slices, one after another, into the first group that each belongs to, else into one of its own. */
function grouped(parts, belongs) {
  const groups = [];
  for (const part of parts) {
    const group = groups.find((others) => belongs(others, part));
    if (group) group.push(...part);
    else groups.push([...part]);
  }
  return groups;
}

/** Whether slices {directions} are parallel. */
const isParallel = ([a], [b]) => [0, 3].every((at) => apart(a.directions.slice(at, at + 3), b.directions.slice(at, at + 3)) <= SAME_DIRECTION);

/** Whether stacks of slices {at} have some at one place, or run through each other. */
function overlap(first, second, tolerance) {
  if (first.some(({ at }) => second.some((each) => Math.abs(each.at - at) <= tolerance))) return true;
  if (Math.min(first.length, second.length) < STACK) return false;
  const [a, b] = [first, second].map((slices) => slices.map(({ at }) => at));
  const [low, high] = [Math.max(Math.min(...a), Math.min(...b)), Math.min(Math.max(...a), Math.max(...b))];
  return [a, b].every((places) => places.filter((place) => low <= place && place <= high).length >= STACK);
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
  return grouped(partsOf(slices, tolerance), (pass, part) => !overlap(pass, part, tolerance)).map((pass) => pass.sort((a, b) => a.at - b.at));
}

/**
 * The slices {file, number, acquisition, time, position, orientation} of a series in order: along their normal, pass after
 * pass; stacks of other orientations, and slices without a position, by their lowest instance number. Each has its
 * position_mm along the normal, null if unknown, and the number of its stack of parallel slices, or of its pass.
 */
export function orderSlices(slices) {
  const described = slices.map((slice) => ({ ...slice, slice, point: numbers(slice.position, 3), directions: numbers(slice.orientation, 6) }));
  const isPlaced = ({ point, directions }) => point && directions && Math.hypot(...directions) > 1;
  const groups = grouped(described.filter(isPlaced).sort(byNumber).map((each) => [each]), isParallel);
  const rest = described.filter((each) => !isPlaced(each)).sort(byNumber);
  const ordered = groups.map((group) => [group[0], alongNormal(group)]);
  if (rest.length) ordered.push([rest[0], [rest]]);
  const passes = ordered.sort(([a], [b]) => byNumber(a, b)).flatMap(([, stacks]) => stacks);
  return passes.flatMap((pass, index) => pass.map(({ slice, at = null }) => ({ ...slice, position_mm: at, stack: index + 1 })));
}
