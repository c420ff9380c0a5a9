// Reads what the user chose as a query: recognises files, opens archives, groups slices into one image, a stack, several examples, or a zipped series.

import { dicomHeader, orderSlices } from "./dicom_header.js";
import { fileKind } from "./file_kind.js";
import { Problem, size } from "./problems.js";
import { tr, trn } from "./translate.js";
import { readZip, writeZip } from "./zip_files.js";

const DIRECTORY = "1.2.840.10008.1.3.10"; // SOP class of a DICOMDIR
const MAX_EXAMPLES = 20; // as in the API

/** Check that a file can be sent; raises Problem. */
function checkSize(file, maxBytes) {
  const values = { name: file.name, size: size(file.size), limit: size(maxBytes) };
  if (file.size > maxBytes) throw new Problem(tr("The file is too large"), tr("{name} has {size}; the limit is {limit}. Export a single frame or a smaller image, or raise max_upload_bytes in the settings of the service.", values));
  if (!file.size) throw new Problem(tr("The file is empty"), tr("{name} has 0 bytes. Copy or export it again.", { name: file.name }));
}

/** The slices of each series in order, the longest series first. */
function stacks(images) {
  const series = new Map();
  for (const image of images) {
    if (image.kind !== "dicom" || !image.series || Number(image.frames) > 1) continue;
    series.set(image.series, [...(series.get(image.series) ?? []), image]);
  }
  return [...series.values()].map(orderSlices).sort((a, b) => b.length - a.length);
}

function besideSeries(rest, series) {
  if (series === 1) return trn("{count} image left out: not of the longest series.", "{count} images left out: not of the longest series.", rest);
  return trn("{count} image left out: not of the longest series of {series}.", "{count} images left out: not of the longest series of {series}.", rest, { series });
}

function examples(images, maxBytes) {
  const chosen = [];
  let bytes = 0;
  for (const { file } of images) {
    if (chosen.length === MAX_EXAMPLES || !file.size || bytes + file.size > maxBytes) continue;
    chosen.push(file);
    bytes += file.size;
  }
  return chosen;
}

/**
 * The query of files [{file, kind, series, number, frames, sopClass, ...}]: {file, note}, with the `slices` and `places` {position_mm, stack} of a stack, the
 * `files` of several examples, or the `series` to zip for a collection of series. note: what is left out, or "".
 * Raises Problem if nothing can be searched with.
 */
export function queryOfFiles(described, { ofSeries, maxBytes }) {
  const images = described.filter(({ kind, sopClass }) => kind && kind !== "zip" && sopClass !== DIRECTORY);
  const other = described.length - images.length;
  const notes = other ? [trn("{count} file left out: not images.", "{count} files left out: not images.", other)] : [];
  if (!images.length) {
    const [{ file: first } = {}] = described;
    const what = described.length === 1 ? tr("{name} is not an image.", { name: first.name }) : tr("None of {count} files is an image.", { count: described.length });
    throw new Problem(tr("There is no image to search with"), `${what} ${tr("Choose PNG, JPEG, TIFF, BMP, DICOM or NIfTI files, or a folder or ZIP archive of them.")}`);
  }
  const [stack, ...others] = stacks(images);
  if (stack?.length > 1) {
    const rest = images.length - stack.length;
    if (rest) notes.push(besideSeries(rest, others.length + 1));
    const slices = stack.map(({ file }) => file);
    const places = stack.map(({ position_mm, stack: number }) => ({ position_mm, stack: number }));
    if (ofSeries) return { series: slices, file: slices[0], note: notes.join(" ") };
    for (const file of slices) checkSize(file, maxBytes);
    const index = Math.floor(slices.length / 2);
    return { file: slices[index], slices, places, slice: index, note: notes.join(" ") };
  }
  if (ofSeries || images.length === 1) {
    checkSize(images[0].file, maxBytes);
    if (images.length > 1) notes.push(trn("{count} image left out: one series is searched at a time.", "{count} images left out: one series is searched at a time.", images.length - 1));
    return { file: images[0].file, note: notes.join(" ") };
  }
  const files = examples(images, maxBytes);
  if (!files.length) checkSize(images[0].file, maxBytes);
  const rest = images.length - files.length;
  if (rest) notes.push(trn("{count} image left out: one query takes {most} images and {size}.", "{count} images left out: one query takes {most} images and {size}.", rest, { most: MAX_EXAMPLES, size: size(maxBytes) }));
  if (files.length === 1) return { file: files[0], note: notes.join(" ") };
  return { file: files[0], files, note: notes.join(" ") };
}

const HEAD_BYTES = 2 ** 18; // enough for the header of nearly every DICOM file

async function describe(file) {
  let bytes;
  try {
    bytes = new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
  } catch {
    throw new Problem(tr("The file cannot be read"), tr("The browser cannot read {name}. If it is a folder, choose it with the button Folder; else copy it and try again.", { name: file.name }));
  }
  const kind = fileKind(bytes, file.name);
  return { file, kind, ...(kind === "dicom" ? dicomHeader(bytes) : {}) };
}

async function describeAll(files) {
  const described = [];
  for (const file of files) described.push(await describe(file));
  return described;
}

/** The query of the user's files {file, frame, window, region, note, slices, files}; limits: {ofSeries, maxBytes}; raises Problem. */
export async function readFiles(files, limits) {
  if (!files.length) throw new Problem(tr("There is no image to search with"), tr("The folder is empty. Choose a folder with images."));
  const whole = { frame: 1, window: null, region: null };
  let described = await describeAll(files);
  if (files.length === 1) {
    const [{ file, kind }] = described;
    if (kind !== "zip" || limits.ofSeries) {
      checkSize(file, limits.maxBytes); // the service says what is wrong with other files
      return { ...whole, file, note: "" };
    }
  }
  const unpacked = [];
  for (const one of described) unpacked.push(...(one.kind === "zip" ? await describeAll(await readZip(one.file)) : [one]));
  const { series, ...query } = queryOfFiles(unpacked, limits);
  if (series) {
    query.file = await writeZip(series);
    checkSize(query.file, limits.maxBytes);
  }
  return { ...whole, ...query };
}
