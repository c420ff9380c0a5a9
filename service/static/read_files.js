// Reads what the user chose as a query: recognises files, opens archives, groups slices.

import { dicomHeader } from "./dicom_header.js";
import { fileKind } from "./file_kind.js";
import { InputError } from "./input_error.js";
import { checkSize, queryOfFiles } from "./query_files.js";
import { tr } from "./translate.js";
import { readZip, writeZip } from "./zip_files.js";

const HEAD_BYTES = 2 ** 18; // enough for the header of nearly every DICOM file

async function describe(file) {
  let bytes;
  try {
    bytes = new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
  } catch {
    throw new InputError(tr("The file cannot be read"), tr("The browser cannot read {name}. If it is a folder, choose it with the button Folder; else copy it and try again.", { name: file.name }));
  }
  const kind = fileKind(bytes, file.name);
  return { file, kind, ...(kind === "dicom" ? dicomHeader(bytes) : {}) };
}

async function describeAll(files) {
  const described = [];
  for (const file of files) described.push(await describe(file));
  return described;
}

/** The query of the user's files {file, frame, window, region, note, slices, files}; limits: {ofSeries, maxBytes}; raises InputError. */
export async function readFiles(files, limits) {
  if (!files.length) throw new InputError(tr("There is no image to search with"), tr("The folder is empty. Choose a folder with images."));
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
