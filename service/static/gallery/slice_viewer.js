// A series or study with its slices to scroll by wheel, keys and slider.

import { byId } from "../dom.js";
import { tr, trn } from "../translate.js";
import { images, pictureAddress, searchAddress } from "./requests.js";
import { movedSlice } from "./slice_moves.js";

const PAGE = 1000; // images of a request
const AHEAD = 3; // slices loaded before they are shown
const WHEEL_PIXELS = 40; // of one slice

let slices = [];
let slice = 0;
let turned = 0; // pixels of the wheel since the last slice
const loaded = new Map(); // pictures by image id

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

/** Open the dialog; onClose() is called when the user leaves it. Rejects if the images cannot be loaded. */
export async function open({ study, series }, signal) {
  const found = await load(study, series, signal);
  if (signal.aborted || !found.length) return false;
  slices = found;
  turned = 0;
  loaded.clear();
  byId("slice").max = slices.length;
  byId("slices-title").textContent = trn("{count} slice", "{count} slices", slices.length);
  show(Math.floor(slices.length / 2));
  if (!byId("slices").open) byId("slices").showModal();
  byId("slice-film").focus();
  return true;
}

export function close() {
  byId("slices").close();
}

function picture({ image_id }) {
  if (!loaded.has(image_id)) {
    const image = new Image();
    image.src = pictureAddress(image_id, "/picture");
    loaded.set(image_id, image);
  }
  return loaded.get(image_id);
}

function show(next) {
  slice = next;
  const item = slices[slice];
  const values = { number: slice + 1, count: slices.length };
  for (const ahead of slices.slice(Math.max(0, slice - AHEAD), slice + AHEAD + 1)) picture(ahead);
  byId("slice-picture").src = picture(item).src;
  byId("slice-picture").alt = tr("Slice {number} of {count}", values);
  byId("slice").value = slice + 1;
  byId("slice-number").textContent = tr("{number} of {count}", values);
  byId("slice-labels").textContent = Object.entries(item.labels).map((pair) => pair.join(": ")).join(" · ");
  byId("slice-search").href = searchAddress([item.image_id]);
}

/** Connect the controls; onClose(): the user has left the dialog. */
export function install(onClose) {
  byId("slice").addEventListener("input", () => show(Number(byId("slice").value) - 1));
  byId("slice-film").addEventListener("keydown", (event) => {
    const next = movedSlice(event.key, slice, slices.length);
    if (next === undefined) return;
    event.preventDefault();
    show(next);
  });
  byId("slice-film").addEventListener("wheel", (event) => {
    event.preventDefault();
    turned += event.deltaMode ? event.deltaY * WHEEL_PIXELS : event.deltaY;
    const steps = Math.trunc(turned / WHEEL_PIXELS);
    turned -= steps * WHEEL_PIXELS;
    if (steps) show(Math.min(Math.max(slice + steps, 0), slices.length - 1));
  }, { passive: false });
  byId("slices-close").addEventListener("click", close);
  byId("slices").addEventListener("close", onClose);
}
