// The elements of a DICOM file that group slices into series (PS3.5, section 7; PS3.10, section 7).

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
    if (length !== UNDEFINED) {
      this.at += length;
      return;
    }
    if (depth > MAX_DEPTH) throw new RangeError("too deep");
    for (;;) {
      const item = this.header(explicit);
      if (item.tag !== ITEM) return; // the end of the sequence
      if (item.length !== UNDEFINED) {
        this.at += item.length;
        continue;
      }
      for (let inner = this.header(explicit); inner.tag !== END_OF_ITEM; inner = this.header(explicit)) this.skip(inner, depth + 1);
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
