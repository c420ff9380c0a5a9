// An image, a series or a study of the gallery, large, in a dialog.

import { byId } from "../dom.js";
import { tr, trn } from "../translate.js";
import { seriesOf } from "../viewer/picture_source.js";
import "../viewer/viewer.js";
import { images, searchAddress } from "./requests.js";
import { wordsOf } from "./tile_words.js";

const PAGE = 1000; // images of a request

const collection = byId("gallery").dataset.collection;
let labels = new Map(); // of the slices, by image id
let neighbour = null; // (step) => the item before or after the present one

const viewer = () => byId("large-viewer");
const sliceOf = ({ image_id, card }) => ({ id: image_id, position_mm: card?.slice?.position_mm, stack: card?.slice?.stack });

/** Load all images of a study, or of one of its series, in order. */
async function load(study, series, signal) {
  const items = [];
  let cursor = null;
  do {
    const page = await images({ study, series, sort: "slices", limit: PAGE, cursor }, signal);
    items.push(...page.items);
    cursor = page.next;
  } while (cursor !== null);
  return items;
}

/** Open the dialog with a series or study. Rejects if the images cannot be loaded. */
export async function open({ study, series }, signal) {
  const items = await load(study, series, signal);
  if (signal.aborted || !items.length) return;
  labels = new Map(items.map((item) => [item.image_id, item.labels]));
  const index = Math.floor(items.length / 2);
  show(null, trn("{count} slice", "{count} slices", items.length), { kind: "stack", collection, slices: items.map(sliceOf), index });
}

/** Open the dialog with an image of the grid; beside(step) is its neighbour. */
export async function openImage(item, beside) {
  labels = new Map([[item.image_id, item.labels]]);
  const source = { kind: "image", collection, id: item.image_id };
  show(beside, wordsOf(item, "newest").title, source);
  const stack = await seriesOf(source, item).catch(() => null); // without them it is one picture
  if (stack && viewer().source === source) viewer().source = stack;
}

function show(beside, title, source) {
  neighbour = beside;
  byId("large-title").textContent = title;
  for (const [id, step] of [["large-earlier", -1], ["large-later", 1]]) {
    byId(id).hidden = !beside;
    byId(id).disabled = !beside?.(step);
  }
  viewer().label = title;
  viewer().source = source;
  describe();
  if (byId("slices").open) return;
  byId("slices").showModal();
  viewer().stage.focus();
}

export function close() {
  byId("slices").close();
}

function go(step) {
  const item = neighbour?.(step);
  if (item) openImage(item, (next) => neighbourOf(item, next));
}

let neighbourOf = () => null;

/** Say of which slice the picture is. */
function describe() {
  const { slice, slices, index } = viewer();
  const { id } = slice ?? slices[index];
  byId("large-labels").textContent = Object.entries(labels.get(id) ?? {}).map((pair) => pair.join(": ")).join(" · ");
  byId("slice-search").href = searchAddress([id]);
}

/** Connect the controls; onClose(): the user has left the dialog; beside(item, step): the item of the grid before or after one. */
export function install(onClose, beside) {
  neighbourOf = beside;
  viewer().addEventListener("cbir-slice", describe);
  byId("large-earlier").addEventListener("click", () => go(-1));
  byId("large-later").addEventListener("click", () => go(1));
  byId("slices").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && neighbour && !event.target.closest("input")) go(step);
    else if (event.target.closest("input, a") || !viewer().press(event)) return;
    event.preventDefault();
  });
  byId("slices-close").addEventListener("click", close);
  byId("slices").addEventListener("close", () => {
    viewer().source = null;
    onClose();
  });
}
