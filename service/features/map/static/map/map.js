// The map beside the images of Browse: its panel, what colours it, and the area that is chosen on it.

import { imageAddress } from "../api.js";
import { toggle, valuesOf, withRange } from "../browse/conditions.js";
import { openImage } from "../browse/large_view.js";
import { change, changeOthers } from "../browse/listing.js";
import { picture } from "../card.js";
import { addPart, state, subscribe, update } from "../page_state.js";
import { remember, remembered } from "../theme.js";
import { number, tr, trn } from "../translate.js";
import { html, nothing, ref, render, svg } from "../vendor/lit.js";
import { groupImages, readArea, stylePoints, writeArea } from "./groups.js";
import { MapView } from "./map_view.js";
import { connectPointer } from "./pointer.js";
import { chosenPoints, imagesIn, labelsOf, loadPoints, nearest, ofSamePoints, placesOf, points, watch } from "./points.js";

const NEAR = 12; // pixels between the pointer and an image
const MIDDLE = 60; // between the middle and an image
const GAP = 14; // between the pointer and the picture beside it
const OF_ADDRESS = ["image", "hits", "area", "key"];
const OUTLINES = { square: "2,2 12,2 12,12 2,12", triangle: "7,1 13,13 1,13", diamond: "7,0 14,7 7,14 0,7" };

const isWide = matchMedia("(min-width: 1101px)");
let view = null;
let grouped = { groups: [], of: new Uint16Array() };
let bright = null; // by point, whether it meets the conditions; null if there are none

const put = (changes) => update({ map: { ...state.map, ...changes } });
const theme = () => (document.documentElement.dataset.theme === "light" ? "light" : "dark");

// Loading and colours

const keysOf = ({ keys }) => (keys?.items ?? []).filter(({ values, images }) => values > 1 && values < images).map(({ key }) => key);

function keyOf(now) {
  const keys = keysOf(now);
  return [now.others.key, now.map.key, remembered("map-key"), "label", keys[0]].find((key) => key === "" || keys.includes(key)) ?? "";
}

async function open() {
  put({ shown: true, phase: state.map.phase ?? "loading" });
  try {
    await loadPoints();
    const places = await placesOf(state.others);
    if (view) Object.assign(view.marks, places);
    put({ hasQuery: Boolean(places.query || places.hits.length), coloured: null, phase: "ready", reason: "" });
  } catch (error) {
    put({ phase: "failed", reason: error.message });
  }
}

/** Colour the points by a label, and dim those that the conditions leave out. */
async function colour(key, { where, others }) {
  try {
    const isLimited = where.length || others.area;
    const [{ values, codes }, chosen] = await ofSamePoints(async () => [await labelsOf(key), isLimited ? await chosenPoints(where, others.area) : null]);
    if (state.map.coloured !== lookOf(state)) return; // another has been chosen meanwhile
    grouped = groupImages(key, values, codes, theme());
    bright = chosen && new Uint8Array(points.ids.length);
    for (const point of chosen ?? []) bright[point] = 1;
    view?.setLooks(stylePoints(grouped, bright, theme()));
    put({ groups: grouped.groups, phase: "ready", reason: "" });
  } catch (error) {
    put({ reason: error.message });
  }
}

/** What the looks of the points depend on, as text. */
const lookOf = (now) => JSON.stringify([keyOf(now), now.where, now.others.area, theme(), points.generation]);

function follow(now) {
  if (!now.map?.shown || now.map.phase !== "ready" || !now.keys) return;
  const wanted = lookOf(now);
  if (now.map.coloured !== wanted) {
    now.map.coloured = wanted;
    colour(keyOf(now), now);
  }
  const current = now.large?.item ? points.ids.indexOf(now.large.item.image_id) : -1;
  const outline = readArea(now.others.area);
  if (!view || (current === view.current && now.others.area === view.area)) return;
  Object.assign(view, { current, area: now.others.area });
  Object.assign(view.marks, { outline, current: current < 0 ? null : { x: points.x[current], y: points.y[current] } });
  view.draw();
}

// The canvas

const titleOf = (point) => (grouped.groups[grouped.of[point]] ? groupName(grouped.groups[grouped.of[point]]) : "");

const near = (px, py, pixels) => nearest(points, ...view.placeOf(px, py), view.reach(pixels), (point) => !bright || bright[point]);

const inMiddle = () => near(view.size.width / 2, view.size.height / 2, MIDDLE);
const openPoint = (point) => point >= 0 && openImage(points.ids[point]);

/** Name the image in the middle, for those who move by keys. */
function announce() {
  if (!view?.overlay.matches(":focus-visible")) return;
  const point = inMiddle();
  const middle = point < 0 ? tr("No image in the middle") : tr("In the middle: {name}", { name: titleOf(point) });
  if (middle !== state.map.middle) put({ middle });
}

/** Show the picture of the image at a point of the canvas beside it. */
function preview(at) {
  const point = at ? near(...at, NEAR) : -1;
  const box = view.overlay.nextElementSibling;
  box.hidden = point < 0;
  if (point < 0) return;
  const [[x, y], { width, height }] = [at, view.size];
  render(html`<span class="film">${picture(imageAddress(state.facts.collection, points.ids[point], "/thumbnail"), { lazy: false })}</span><span>${titleOf(point)}</span>`, box);
  box.style.left = `${x > width / 2 ? Math.max(0, x - GAP - box.offsetWidth) : x + GAP}px`;
  box.style.top = `${Math.max(0, Math.min(y + GAP, height - box.offsetHeight))}px`;
}

function choose(outline) {
  view.area = null;
  if (outline) change({ others: { ...state.others, area: writeArea(outline) }, view: "images", study: "", series: "" });
  else update({});
}

function connect(overlay) {
  if (!overlay || view) return;
  view = new MapView(overlay.previousElementSibling, overlay, announce);
  if (points.ids.length) view.setPoints(points.x, points.y);
  connectPointer(view, { mode: () => state.map.mode, onHover: preview, onClick: (at) => openPoint(near(...at, NEAR)), onOutline: choose, onOpen: () => openPoint(inMiddle()) });
}

// The panel

function groupName(group) {
  if (group.name === null) return tr("Without this label");
  return group.more ? trn("{count} rarer value", "{count} rarer values", group.more) : group.name;
}

const sign = ({ colour: fill, shape }) =>
  html`<svg viewBox="0 0 14 14" aria-hidden="true">${shape === "circle" ? svg`<circle cx="7" cy="7" r="6" fill=${fill}></circle>` : svg`<polygon points=${OUTLINES[shape]} fill=${fill}></polygon>`}</svg>`;

function filter(group, key) {
  const { where } = state;
  if (group.where.length === 1) return change({ where: toggle(where, group.where[0]) });
  const [minimum, maximum] = group.where.map((each) => each.slice(key.length + 2));
  return change({ where: withRange(where, key, isChosen(group, where) ? { minimum: "", maximum: "" } : { minimum, maximum }) });
}

const isChosen = (group, where) => Boolean(group.where?.every((each) => where.includes(each)));

function legend({ where, ...now }) {
  const key = keyOf(now);
  const { groups = [] } = now.map;
  const hasChoice = valuesOf(where, key).length > 0;
  return html`<ul class="legend" role="list" aria-label=${tr("Colours")}>${groups.map((group) => html`<li><button class="group" type="button" ?disabled=${!group.where} aria-pressed=${String(isChosen(group, where))} title=${hasChoice ? "" : tr("Only these")} @click=${() => filter(group, key)}>${sign(group)}<span>${groupName(group)}</span><span class="count">${number(group.count)}</span></button></li>`)}</ul>`;
}

function progress({ phase, done, total, reason, newer, shown }) {
  const text = { loading: tr("The map is being loaded"), computing: tr("The map is being computed") }[phase] ?? (newer ? tr("A newer map is being computed") : "");
  if (phase === "failed" || (reason && phase === "ready")) return html`<p class="hint map-note" role="alert">${phase === "failed" ? `${tr("There is no map")}: ` : ""}${reason} <button class="link" type="button" @click=${() => { put({ reason: "", phase: "loading" }); open(); }}>${tr("Load again")}</button></p>`;
  return text && shown ? html`<p class="hint map-note"><span role="status" id="progress-text">${text}</span>${phase === "computing" ? html` <progress aria-labelledby="progress-text" max=${total ?? 1} value=${done}></progress>` : nothing}</p>` : nothing;
}

function beside(now) {
  const { shown, phase, mode, hasQuery, middle = "" } = now.map;
  const modes = { move: tr("Move"), lasso: tr("Lasso"), rectangle: tr("Rectangle") };
  const chooseKey = (key) => {
    remember("map-key", key);
    put({ key });
    changeOthers({ key });
  };
  const key = keyOf(now);
  const zoom = (text, title, act) => html`<button class="sign" type="button" title=${title} aria-label=${title} @click=${act}>${text}</button>`;
  return html`<section class="beside map" id="map" aria-label=${tr("Map")} aria-busy=${phase === "failed" || (phase === "ready" && now.map.groups) ? nothing : "true"} ?hidden=${!shown} data-mode=${mode}>
    <div class="bar"><select id="colour-key" aria-label=${tr("Colour by")} autocomplete="off" @change=${({ target }) => chooseKey(target.value)}>${[...keysOf(now), ""].map((each) => html`<option value=${each} .selected=${each === key}>${each || tr("no label")}</option>`)}</select>
      <fieldset class="switch"><legend class="unseen">${tr("Dragging on the map")}</legend>${Object.entries(modes).map(([name, title]) => html`<label><input type="radio" name="mode" value=${name} .checked=${name === mode} @change=${() => put({ mode: name })} /><span>${title}</span></label>`)}</fieldset>
      <span role="group" aria-label=${tr("Zoom")}>${zoom("+", tr("Zoom in"), () => view.zoom(1.6))}${zoom("−", tr("Zoom out"), () => view.zoom(1 / 1.6))}${zoom("⤢", tr("Whole map"), () => view.showAll())}${zoom("×", tr("Close"), hide)}</span></div>
    ${progress(now.map)}
    <div class="map-stage"><canvas id="points" aria-hidden="true"></canvas><canvas id="overlay" tabindex="0" role="application" aria-label=${tr("Map: arrow keys move, plus and minus zoom, Enter opens the image in the middle")} aria-describedby="middle" ${ref(connect)}></canvas><div class="preview" hidden></div></div>
    ${legend(now)}
    <p class="hint">${hasQuery ? tr("The star is your image, the rings are its results.") : tr("Images that resemble each other lie close together; directions and large distances mean nothing.")}</p>
    <p class="unseen" id="middle" role="status">${middle}</p></section>`;
}

function hide() {
  put({ shown: false });
  if (isWide.matches) remember("map", "hidden");
  document.getElementById("map-switch").focus(); // also of those who closed it in the panel
}

async function show() {
  if (isWide.matches) remember("map", "shown");
  const opened = open();
  await Promise.resolve(); // drawn now
  if (!isWide.matches) document.getElementById("map").scrollIntoView({ block: "center" });
  await opened;
}

function tools({ map: { shown, phase }, facts }) {
  const isComputed = facts.parts.map.computed || phase === "ready";
  return html`<button class="pill ${shown ? "on" : ""}" type="button" id="map-switch" aria-pressed=${String(shown)} title=${isComputed ? "" : tr("There is no map of this collection yet.")} @click=${shown ? hide : show}>${isComputed || shown ? tr("Map") : tr("Compute the map")}</button>`;
}

const chips = ({ others }) => (readArea(others.area).length ? html`<button class="pill on" type="button" title=${tr("Show all images again")} @click=${() => change({ others: { ...others, area: "" } })}>${tr("Chosen on the map")} ×</button>` : nothing);

function install() {
  const isAsked = OF_ADDRESS.some((name) => state.others[name]);
  update({ map: { shown: false, mode: "move" } });
  watch((answer) => {
    put(answer);
    if (answer.phase === "ready") view?.setPoints(points.x, points.y);
  });
  if (isAsked || (isWide.matches && remembered("map") !== "hidden" && state.facts.parts.map.computed)) open();
  new MutationObserver(() => update({})).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

async function area({ others }) {
  if (!readArea(others.area).length) return null;
  await loadPoints();
  return imagesIn(others.area);
}

const changed = () => state.map.phase === "ready" && loadPoints(true).catch(() => {});

subscribe(follow);
addPart({ install, area, beside, tools, chips, changed });
