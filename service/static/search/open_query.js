// Queries from the user: files that are chosen, dropped or pasted; an id, a link or words in the box; a picture that is dragged here.

import { addressIn, fetchJson } from "../api.js";
import { state, update } from "../page_state.js";
import { Problem } from "../problems.js";
import { byId, isTouched } from "../theme.js";
import { tr } from "../translate.js";
import { changeCollection, collectionName, openAddress, showError, startSearch } from "./run.js";
import { kindOf, writeAddress } from "./search_fields.js";

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
function droppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const plain = [...transfer.files];
  if (!entries.some((entry) => entry.isDirectory)) return Promise.resolve(plain);
  return (async () => {
    const files = [];
    for (const entry of entries) await walk(entry, files);
    return files;
  })();
}

let reading = 0; // the latest choice of files; earlier ones that are still read do not matter

async function openFiles(promised) {
  const number = ++reading;
  try {
    const files = [...(await promised)].filter(({ name }) => !name.startsWith("."));
    if (!files.length) return;
    const { readFiles } = await import("../query_files.js");
    const query = await readFiles(files, { ofSeries: state.facts.of_series, maxBytes: state.facts.max_upload_bytes });
    if (number === reading) startSearch(query);
  } catch (error) {
    if (number !== reading) return;
    const unread = new Problem(tr("The files cannot be read"), tr("The browser cannot read them. Copy them to a local folder and try again."));
    showError(error instanceof DOMException ? unread : error);
  }
}

async function openImage({ collection, id }) {
  if (collection && collection !== collectionName()) await changeCollection(collection);
  if (!collection || collection === collectionName()) startSearch({ image: id });
}

async function openUid(uid) {
  const { items } = await fetchJson(addressIn(collectionName(), "images", { study: uid, sort: "slices", limit: 1000 }));
  if (items.length) return startSearch({ image: items[items.length >> 1].image_id });
  refuse(tr("No such study here"), tr("No study of this collection has the UID {uid}.", { uid }));
}

const refuse = (title, message) => showError(new Problem(title, message));

/** Search with what was typed or pasted: an id, a link of this service, a UID, or words. */
export async function openText(typed) {
  const text = typed.trim();
  if (!text) return;
  const found = kindOf(text, location.origin);
  update({ problem: null });
  if (found.kind === "image") return openImage(found);
  if (found.kind === "page") {
    history.pushState({}, "", writeAddress(found.params));
    return openAddress();
  }
  if (found.kind === "other") return location.assign(found.address); // wholly: a path may begin with //, as another host does
  if (found.kind === "site") return refuse(tr("A picture of another site cannot be opened by its link"), tr("The page may not load from {host}. Copy the picture there and paste it here, or save it and drop the file.", found));
  if (found.kind === "uid") return openUid(found.uid).catch(showError);
  if (!state.facts.by_text) return refuse(tr("Words cannot be searched here"), tr("This collection is searched by pictures. Drop or paste one, or type the id of an image."));
  if (text.length > state.facts.max_text) return refuse(tr("The text is too long"), tr("A search takes {count} characters.", { count: state.facts.max_text }));
  startSearch({ text });
}

function dropped({ dataTransfer }) {
  const text = (dataTransfer.getData("text/uri-list") || dataTransfer.getData("text/plain")).split("\n")[0].trim();
  const isOfService = ["image", "page", "other"].includes(kindOf(text, location.origin).kind);
  if (isOfService) return openText(text); // a picture dragged from the page also carries its file
  if (dataTransfer.files.length) return openFiles(droppedFiles(dataTransfer));
  if (text) openText(text);
}

const isField = (target) => target.closest?.("input:not([type=checkbox], [type=radio], [type=range]), textarea");

export function install() {
  const [box, file, folder] = ["box", "file", "folder"].map(byId);
  if (isTouched()) box.placeholder = state.facts.by_text ? tr("Type an image id, a link or words …") : tr("Type an image id or a link …");
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    openText(box.value);
  });
  for (const [button, input] of [["choose", file], ["choose-folder", folder]]) {
    byId(button).addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      openFiles([...input.files]);
      input.value = ""; // so that choosing the same file again is a change
    });
  }
  byId("collections")?.addEventListener("click", (event) => {
    const link = event.target.closest("[data-collection]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    changeCollection(link.dataset.collection);
  });
  for (const kind of ["dragenter", "dragover"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      if (!state.dragging) update({ dragging: true });
    });
  }
  document.addEventListener("dragleave", (event) => !event.relatedTarget && update({ dragging: false }));
  document.addEventListener("dragend", () => update({ dragging: false }));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    update({ dragging: false });
    dropped(event);
  });
  document.addEventListener("paste", (event) => {
    if (isField(event.target) && event.target !== box) return;
    const files = [...(event.clipboardData?.files ?? [])];
    const text = event.clipboardData?.getData("text/plain").trim();
    const isWords = text && kindOf(text, location.origin).kind === "words";
    if ((!files.length && !text) || (isWords && event.target === box)) return; // Enter searches
    event.preventDefault();
    if (files.length) return openFiles(files);
    box.value = text;
    if (isWords) box.focus();
    else openText(text);
  });
}
