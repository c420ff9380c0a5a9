// Dragging to the left and right over the picture of a card goes through its series.

import { imageAddress, seriesImages } from "../api.js";
import { state, update } from "../page_state.js";
import { collectionName, shownHits } from "./run.js";

const LEAST = 6; // pixels of a drag; less is a click

const stacks = new Map(); // promises of image ids in order, by collection and series
let drag = null; // {hit, x, index, width, moved}

/** The ids of the images of a series in their order. */
function stackOf({ dicom }) {
  const key = `${collectionName()}/${dicom.series}`;
  if (!stacks.has(key)) {
    const loading = seriesImages(collectionName(), dicom).then((items) => items.map(({ image_id }) => image_id));
    loading.catch(() => stacks.delete(key));
    stacks.set(key, loading);
  }
  return stacks.get(key);
}

/** The slice of a drag: the whole width of a card goes through the whole series. */
export const sliceAt = (start, dragged, width, count) => Math.min(Math.max(start + Math.round((dragged / width) * (count - 1)), 0), count - 1);

function down(event) {
  const film = event.target.closest("[data-stack]");
  const hit = film && !event.button && shownHits(state).find(({ image_id }) => image_id === film.dataset.stack);
  if (hit?.dicom) drag = { hit, x: event.clientX, width: film.clientWidth, moved: false };
}

async function move(event) {
  if (!drag || (!drag.moved && Math.abs(event.clientX - drag.x) < LEAST)) return;
  const current = drag;
  current.moved = true;
  const ids = await stackOf(current.hit).catch(() => []);
  if (ids.length < 2 || drag !== current) return;
  const shown = state.slices.get(current.hit.image_id)?.id ?? current.hit.image_id;
  current.start ??= ids.indexOf(shown);
  const index = sliceAt(current.start, event.clientX - current.x, current.width, ids.length);
  const slice = { number: index + 1, count: ids.length, id: ids[index], address: imageAddress(collectionName(), ids[index], "/thumbnail") };
  if (slice.id !== shown) update({ slices: new Map(state.slices).set(current.hit.image_id, slice) });
}

/** Connect the cards below an element. */
export function install(area) {
  let suppress = false;
  area.addEventListener("pointerdown", (event) => {
    suppress = false;
    down(event);
  });
  document.addEventListener("pointermove", move);
  for (const end of ["pointerup", "pointercancel"]) {
    document.addEventListener(end, () => {
      suppress = Boolean(drag?.moved);
      drag = null;
    });
  }
  area.addEventListener("click", (event) => suppress && event.target.closest("[data-stack]") && (event.preventDefault(), event.stopPropagation()), true);
}
