// ZIP archives (PKWARE APPNOTE): their files, and an archive of files.

import { Problem, size } from "./problems.js";
import { tr } from "./translate.js";

const MAX_BYTES = 2 ** 29; // of all files once inflated, in the memory of the browser
const ENTRY = 0x02014b50; // of the directory
const LOCAL = 0x04034b50;
const END = 0x06054b50;
const END_BYTES = 22; // without its comment
const ENCRYPTED = 1;
const DEFLATED = 8;

/** The entries of the directory: {name, packed, bytes, method, flags, at}. */
function directory(view, bytes) {
  let end = bytes.length - END_BYTES;
  while (end >= 0 && view.getUint32(end, true) !== END) end--;
  if (end < 0) throw new RangeError("no directory");
  const count = view.getUint16(end + 10, true);
  const entries = [];
  let at = view.getUint32(end + 16, true);
  while (entries.length < count) {
    if (view.getUint32(at, true) !== ENTRY) throw new RangeError("no entry");
    const lengths = [28, 30, 32].map((offset) => view.getUint16(at + offset, true)); // name, extra field, comment
    entries.push({
      name: new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + lengths[0])),
      flags: view.getUint16(at + 8, true),
      method: view.getUint16(at + 10, true),
      packed: view.getUint32(at + 20, true),
      bytes: view.getUint32(at + 24, true),
      at: view.getUint32(at + 42, true),
    });
    at += 46 + lengths[0] + lengths[1] + lengths[2];
  }
  return entries.filter(({ name }) => !name.endsWith("/"));
}

/** Inflate at most `limit` bytes: an entry may hold more than it says. */
async function inflate(packed, limit) {
  const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const parts = [];
  let length = 0;
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    parts.push(value);
    length += value.length;
    if (length > limit) throw new RangeError("larger than it says");
  }
  return new Blob(parts);
}

/** The files of an archive; raises Problem. */
export async function readZip(file) {
  const { name } = file;
  const problem = (message) => new Problem(tr("The ZIP archive cannot be read"), message);
  try {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const view = new DataView(bytes.buffer);
    const entries = directory(view, bytes);
    if (entries.some(({ flags }) => flags & ENCRYPTED)) throw problem(tr("{name} is encrypted; make it without a password.", { name }));
    const total = entries.reduce((sum, entry) => sum + entry.bytes, 0);
    if (total > MAX_BYTES) throw problem(tr("{name} holds {size}; the limit is {limit}. Zip fewer files.", { name, size: size(total), limit: size(MAX_BYTES) }));
    const files = [];
    for (const entry of entries) {
      if (view.getUint32(entry.at, true) !== LOCAL) throw new RangeError("no file");
      const start = entry.at + 30 + view.getUint16(entry.at + 26, true) + view.getUint16(entry.at + 28, true);
      const packed = bytes.subarray(start, start + entry.packed);
      if (entry.method !== 0 && entry.method !== DEFLATED) throw problem(tr("{name} is compressed in another way than by deflate; make it with that.", { name }));
      files.push(new File([entry.method ? await inflate(packed, entry.bytes) : packed], entry.name.split("/").at(-1)));
    }
    return files;
  } catch (error) {
    if (error instanceof RangeError || error instanceof TypeError) throw problem(tr("{name} is damaged; make it again.", { name }));
    throw error;
  }
}

/** The deflated bytes of a file, and its CRC: of a gzip stream (RFC 1952), whose header has 10 bytes and whose trailer begins with the CRC. */
async function deflate(file) {
  const bytes = new Uint8Array(await new Response(file.stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer());
  return { packed: bytes.subarray(10, -8), crc: new DataView(bytes.buffer).getUint32(bytes.length - 8, true) };
}

/** An archive of files, named by their numbers since names may be those of patients. */
export async function writeZip(files) {
  const [parts, entries] = [[], []];
  let at = 0;
  const header = (length, values) => {
    const view = new DataView(new ArrayBuffer(length));
    for (const [offset, value, bits] of values) bits === 16 ? view.setUint16(offset, value, true) : view.setUint32(offset, value, true);
    return new Uint8Array(view.buffer);
  };
  for (const [index, file] of files.entries()) {
    const name = new TextEncoder().encode(String(index + 1));
    const { packed, crc } = await deflate(file);
    const facts = (offset) => [[offset, 20, 16], [offset + 4, DEFLATED, 16], [offset + 10, crc], [offset + 14, packed.length], [offset + 18, file.size], [offset + 22, name.length, 16]];
    parts.push(header(30, [[0, LOCAL], ...facts(4)]), name, packed);
    entries.push(header(46, [[0, ENTRY], [4, 20, 16], ...facts(6), [42, at]]), name);
    at += 30 + name.length + packed.length;
  }
  const length = entries.reduce((sum, part) => sum + part.length, 0);
  const end = header(END_BYTES, [[0, END], [8, files.length, 16], [10, files.length, 16], [12, length], [16, at]]);
  return new File([...parts, ...entries, end], "series.zip", { type: "application/zip" });
}
