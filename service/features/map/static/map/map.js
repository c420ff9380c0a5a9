// The map of a collection: connects its canvas, groups, selection and the image that is looked at.

import { byId } from "../dom.js";
import { keepChosen, MOST } from "../gallery/chosen_images.js";
import { remember, remembered } from "../theme.js";
import { number, tr, trn } from "../translate.js";
import { groupImages } from "./groups.js";
import { closeImage, openImage, preview } from "./image_panel.js";
import { connectKeys } from "./keys.js";
import { groupName, showLegend } from "./legend.js";
import { readAddress, withKey } from "./map_address.js";
import { MapView } from "./map_view.js";
import { connectPointer } from "./pointer.js";
import { PointGrid } from "./point_grid.js";
import { stylePoints } from "./point_style.js";
import { loadLabels, loadMap, loadPlaces } from "./requests.js";

const POLL_MS = 1000;
const NEAR = 12; // pixels between the pointer and an image
const MIDDLE = 60; // between the cross and an image

const collection = byId("map").dataset.collection;
const wanted = readAddress(location.search);
const view = new MapView(byId("points"), byId("overlay"), announceMiddle);
let map = { ids: [], x: new Float32Array(), y: new Float32Array(), grid: null };
let grouped = { groups: [], of: new Uint16Array() };
let hidden = new Set();
let selected = [];
let announced = -1;
let recolour = () => {}; // after a change of the theme

const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => ({ dark: true, light: false })[document.documentElement.dataset.theme] ?? darkSystem.matches;
const isVisible = (point) => !hidden.has(grouped.of[point]);
const mode = () => byId("map").querySelector("input[name=mode]:checked").value;
const imageAt = (point) => ({ id: map.ids[point], title: titleOf(point) });

function titleOf(point) {
  const group = grouped.groups[grouped.of[point]];
  return group ? groupName(group) : "";
}

function near(px, py, pixels) {
  return map.grid ? map.grid.nearest(...view.placeOf(px, py), view.reach(pixels), isVisible) : -1;
}

function mark(point) {
  view.marks.current = point < 0 ? null : { x: map.x[point], y: map.y[point] };
  view.draw();
}

function showProblem(error) {
  byId("problem").hidden = false;
  byId("problem").querySelector("p").textContent = error.message;
}

/** Load the map; until there is one, ask again. */
async function load() {
  byId("problem").hidden = true;
  const { state, reason, job, done, total, ids, x, y, images, generation } = await loadMap();
  byId("progress-line").hidden = !job;
  if (job) {
    byId("progress").max = total ?? 1;
    byId("progress").value = done;
    byId("progress-text").textContent = state === "ready" ? tr("A newer map is being computed") : tr("The map is being computed");
  }
  if (state === "computing") {
    setTimeout(() => load().catch(showProblem), POLL_MS);
    return;
  }
  if (state !== "ready") throw new Error(reason);
  map = { ids, x: Float32Array.from(x), y: Float32Array.from(y), generation };
  map.grid = new PointGrid(map.x, map.y);
  view.setPoints(map.x, map.y);
  const shown = number(ids.length);
  byId("total").textContent = ids.length === images ? trn("{count} image", "{count} images", images) : tr("{shown} of {images} images", { shown, images });
  await Promise.all([colour(), showQuery()]);
  byId("map").removeAttribute("aria-busy");
}

/** Colour by the chosen label. */
async function colour() {
  const key = byId("colour-key").value;
  let labels = { values: [], codes: new Array(map.ids.length).fill(-1), generation: map.generation };
  if (key) labels = await loadLabels(key);
  if (key !== byId("colour-key").value) return; // another has been chosen meanwhile
  if (labels.generation !== map.generation) return load(); // the collection has changed in between
  const look = () => {
    const theme = isDark() ? "dark" : "light";
    grouped = groupImages(key, labels.values, labels.codes, theme);
    showLegend(grouped.groups, collection, (hide, emphasised) => {
      hidden = hide;
      view.setLooks(stylePoints(grouped, hide, emphasised, theme === "dark" ? "#2b333c" : "#d5dbe1"));
      if (selected.length) select([]);
    });
  };
  recolour = look;
  look();
}

/** Show the query and the results that the address names. */
async function showQuery() {
  const ids = [...(wanted.image ? [wanted.image] : []), ...wanted.hits];
  byId("query-note").hidden = !ids.length;
  if (!ids.length) return;
  const { items, query } = await loadPlaces(ids);
  view.marks.query = wanted.image ? items.find((item) => item.image_id === wanted.image) ?? null : query;
  view.marks.hits = items.filter((item) => item.image_id !== wanted.image);
  view.draw();
}

function select(points) {
  selected = points;
  byId("selection").hidden = !points.length;
  byId("selected").textContent = points.length ? trn("{count} image selected", "{count} images selected", points.length) : "";
  byId("open-selected").textContent = points.length > MOST
    ? tr("Open the first {count} in the gallery", { count: MOST })
    : trn("Open {count} image in the gallery", "Open {count} images in the gallery", points.length);
}

function open(point) {
  mark(point);
  if (point < 0) closeImage();
  else openImage(imageAt(point), collection).catch(showProblem);
}

/** Name the image below the cross, for those who move by keys. */
function announceMiddle() {
  if (!view.marks.cross) return;
  const point = near(view.size.width / 2, view.size.height / 2, MIDDLE);
  if (point === announced) return;
  announced = point;
  mark(point);
  byId("middle").textContent = point < 0 ? tr("No image in the middle") : tr("In the middle: {name}", { name: titleOf(point) });
}

connectPointer(view, {
  mode,
  onHover: (at) => {
    const point = at ? near(...at, NEAR) : -1;
    preview(point < 0 ? null : imageAt(point), at);
  },
  onClick: (at) => open(near(...at, NEAR)),
  onOutline: (outline) => select(map.grid.within(outline, isVisible)),
});
connectKeys(view, () => open(near(view.size.width / 2, view.size.height / 2, MIDDLE)));

const keys = byId("colour-key");
const preferred = wanted.key || remembered("map-key") || "label";
if ([...keys.options].some((option) => option.value === preferred)) keys.value = preferred;
keys.addEventListener("change", () => {
  remember("map-key", keys.value);
  history.replaceState(null, "", withKey(location.search, keys.value));
  colour().catch(showProblem);
});
byId("zoom-in").addEventListener("click", () => view.zoom(1.6));
byId("zoom-out").addEventListener("click", () => view.zoom(1 / 1.6));
byId("zoom-all").addEventListener("click", () => view.showAll());
byId("clear-selection").addEventListener("click", () => select([]));
byId("open-selected").addEventListener("click", () => {
  if (!keepChosen(selected.map((point) => map.ids[point]))) return;
  location.assign(`/gallery?${new URLSearchParams({ ...(collection && { collection }), chosen: "1" })}`);
});
byId("image-close").addEventListener("click", () => {
  open(-1);
  byId("overlay").focus();
});
byId("retry").addEventListener("click", () => load().catch(showProblem));
byId("collection")?.addEventListener("change", ({ target }) => location.assign(`/map?${new URLSearchParams({ collection: target.value })}`));
new MutationObserver(() => recolour()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
darkSystem.addEventListener("change", () => recolour());
load().catch(showProblem);
