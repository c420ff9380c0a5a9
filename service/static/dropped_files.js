// Files of a drop, of folders too.

import { Problem } from "./problems.js";
import { tr } from "./translate.js";

const MAX_FILES = 5000;

const fileOf = (entry) => new Promise((resolve, reject) => entry.file(resolve, reject));
const batch = (reader) => new Promise((resolve, reject) => reader.readEntries(resolve, reject));

async function walk(entry, files) {
  if (files.length >= MAX_FILES) throw new Problem(tr("The folder is too large"), tr("It has more than {count} files. Choose the folder of one study or series.", { count: MAX_FILES }));
  if (entry.name.startsWith(".")) return; // .DS_Store and the like
  if (entry.isFile) files.push(await fileOf(entry));
  else {
    const reader = entry.createReader(); // gives at most 100 entries at a time
    for (let entries = await batch(reader); entries.length; entries = await batch(reader)) {
      for (const each of entries) await walk(each, files);
    }
  }
}

/** The files of a drop; to be called in its event, since the transfer is empty later. Raises Problem. */
export function droppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const plain = [...transfer.files];
  if (!entries.some((entry) => entry.isDirectory)) return Promise.resolve(plain);
  return (async () => {
    const files = [];
    for (const entry of entries) await walk(entry, files);
    return files;
  })();
}
