// One window for both pictures of the comparison, where their files have one.

import { ApiError, picture, render } from "./api.js";
import * as collection from "./collection.js";
import { byId, element } from "./dom.js";
import { latest } from "./latest.js";
import { state } from "./search_state.js";
import { tr } from "./translate.js";
import { installWindowDrag } from "./window_drag.js";
import { PRESETS, takesPresets } from "./window_presets.js";

const select = byId("compare-preset");
const none = { facts: null, load: null, address: null };
const sides = { left: { ...none }, right: { ...none } };
let window = null; // for both; null for that of each file
let modality = ""; // of the values that the window is for
const draw = latest(async () => {
  await Promise.all(Object.keys(sides).map(drawSide));
});

const drawSlice = { left: latest(() => drawSide("left", true)), right: latest(() => drawSide("right", true)) };

const isAdjustable = ({ facts }) => Boolean(facts?.windowing) && (!window || facts.modality === modality);

async function drawSide(name, always = false) {
  const side = sides[name];
  byId(name).closest("figure").classList.toggle("fixed", Boolean(window) && !isAdjustable(side));
  if (!side.facts?.windowing && !always) return;
  try {
    const { blob, ...facts } = await side.load(isAdjustable(side) ? window : null);
    if (side !== sides[name]) return;
    side.facts = facts;
    if (side.address) URL.revokeObjectURL(side.address);
    side.address = URL.createObjectURL(blob);
    byId(name).src = side.address;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error; // else the picture stays as it is
  }
}

/** Find out whether a side has a window; load(window) resolves with its picture. */
async function open(name, load) {
  if (sides[name].address) URL.revokeObjectURL(sides[name].address);
  const side = { ...none, load };
  sides[name] = side;
  showChoice();
  side.facts = load && (await load(null).catch(() => null));
  if (side !== sides[name]) return;
  showChoice();
  if (window) draw();
}

/** Show another slice at a side, in the window of both; load(window) resolves with its picture. */
export function showSlice(name, load) {
  sides[name].load = load;
  drawSlice[name]();
}

function showChoice() {
  const has = Object.values(sides).filter(({ facts }) => facts && takesPresets(facts)).length;
  select.disabled = !has;
  select.title = has ? "" : tr("Neither picture is CT whose file can be rendered");
}

/** Begin with the windows of the files, and with the query at the left; resolves when its facts are known. */
export async function showQuery() {
  const { query } = state;
  window = null;
  select.value = "";
  byId("left").closest("figure").classList.remove("fixed");
  const { image, region } = query;
  if (image) await open("left", (chosen) => picture(image, { window: chosen, region }));
  else if (query.file && !query.files && !collection.isOfSeries()) {
    const part = { ...query };
    await open("left", (chosen) => render({ ...part, window: chosen ?? part.window }));
  } else await open("left", null);
}

/** {size, spacing} of the picture at the "left" or "right"; null while they are unknown. */
export function factsOf(name) {
  return sides[name].facts;
}

/** Show a result of the collection at the right, in the chosen window. */
export function showResult(image) {
  byId("right").closest("figure").classList.remove("fixed");
  open("right", (chosen) => picture(image, { window: chosen }));
}

function choose(chosen, of) {
  window = chosen;
  modality = of;
  draw();
}

select.append(...PRESETS.map(({ name }, index) => Object.assign(element("option", "", name), { value: index })));
select.addEventListener("change", () => choose(PRESETS[select.value]?.window ?? null, "CT"));
installWindowDrag(byId("panes"), {
  settings: (event) => {
    const side = sides[event.target.closest(".pane")?.querySelector("img").id];
    if (!side?.facts?.windowing) return null;
    modality = side.facts.modality;
    return { ...side.facts.windowing, window: (isAdjustable(side) && window) || side.facts.windowing.window };
  },
  onMove: (dragged) => {
    select.value = "";
    choose(dragged, modality);
  },
  onEnd: () => {},
});
