// The reading view: the query and one or three results on the whole screen, in step with each other.
// openReading() below is called by a page; features add to it by reading(view) of their part, see page_parts.js.

import { ApiError, record } from "../api.js";
import { element } from "../dom.js";
import { describe } from "../metadata.js";
import { callParts } from "../page_parts.js";
import { remember, remembered } from "../theme.js";
import { tr } from "../translate.js";
import { loadPicture, seriesOf } from "./picture_source.js";
import "./viewer.js";

const GROUP = "reading";
const TOOLS = ["window", "zoom", "measure"];
const STORAGE_KEY = "reading-results";
const STEPS = [["slices", tr("Slices")], ["window", tr("Window")], ["zoom", tr("Zoom")]];

function button(text, onClick, title = "") {
  const made = Object.assign(element("button", "button small", text), { type: "button", title });
  made.addEventListener("click", onClick);
  return made;
}

/** A figure with a viewer, and a caption that is filled later. */
class Pane {
  constructor(view) {
    this.view = view;
    this.viewer = document.createElement("cbir-viewer");
    this.viewer.tools = TOOLS;
    this.viewer.linked = GROUP;
    this.viewer.setAttribute("wheel-zooms", "");
    this.caption = element("figcaption", "");
    this.node = element("figure", "", this.viewer, this.caption);
  }

  /** Show a picture, and all slices of its series once they are known. */
  async show(source, label) {
    this.viewer.label = label;
    this.viewer.source = source;
    if (source?.kind !== "image") return;
    try {
      const image = await record(source);
      const stack = await seriesOf(source, image);
      if (stack && this.viewer.source === source) this.viewer.source = stack;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // else it stays one picture
    }
  }

  /** Show a result {id, collection, rank, title, facts, pacs, match}, or nothing. */
  showResult(result) {
    this.result = result;
    this.node.hidden = !result;
    if (!result) return this.show(null, "");
    const { id, collection, rank, title, facts, pacs, match } = result;
    const { actions } = this.view;
    const marks = [["relevant", "✓", tr("Relevant")], ["irrelevant", "✕", tr("Not relevant")]].map(([kind, sign, name]) => {
      const made = button(sign, () => this.view.mark(this, kind), name);
      made.setAttribute("aria-label", `${name}: ${title}`);
      made.dataset.mark = kind;
      return made;
    });
    const words = element("span", "reading-words", element("strong", "", tr("Rank {rank} · {title}", { rank, title })), ` ${facts}`);
    const pacsLink = pacs && Object.assign(element("a", "button small primary", tr("Open in PACS viewer")), { href: pacs, target: "_blank", rel: "noopener noreferrer" });
    const search = button(tr("Search with this image"), () => this.view.search(this));
    search.classList.add("reading-search");
    this.caption.replaceChildren(words, ...(actions.mark ? marks : []), search, ...(pacsLink ? [pacsLink] : []));
    this.viewer.marked = match ?? null;
    this.viewer.flipped = false;
    return this.show({ kind: "image", collection, id }, tr("Result at rank {rank}, {title}", { rank, title }));
  }

  /** The image of the result that is shown: a slice of its series, or the result itself. */
  get image() {
    return this.viewer.slice?.id ?? this.result?.id;
  }
}

class ReadingView {
  constructor() {
    this.panes = [];
    this.position = 0;
    this.follows = { slices: true, window: true, zoom: true };
    this.title = element("h2", "");
    this.link = Object.assign(element("p", "reading-link"), { role: "status" });
    this.earlier = button("←", () => this.go(-1), tr("Previous result"));
    this.later = button("→", () => this.go(1), tr("Next result"));
    for (const each of [this.earlier, this.later]) each.setAttribute("aria-label", each.title);
    this.layouts = [[1, "1 × 2"], [3, "2 × 2"]].map(([count, name]) => {
      const made = button(name, () => this.setCount(count), "G");
      made.dataset.count = count;
      return made;
    });
    this.steps = STEPS.map(([name, title]) => {
      const box = Object.assign(element("input", ""), { type: "checkbox", checked: true });
      box.addEventListener("change", () => this.follow(name, box.checked));
      return element("label", "check", box, ` ${title}`);
    });
    const inStep = element("span", "reading-steps", element("span", "", tr("In step:")), ...this.steps);
    inStep.setAttribute("role", "group");
    inStep.setAttribute("aria-label", tr("What moves together"));
    this.switches = element("span", "buttons"); // of features
    this.tell = button(tr("Metadata"), () => this.toggleMetadata(), "I");
    this.leave = button(tr("Close"), () => this.dialog.close(), "Esc");
    this.leave.classList.add("reading-leave");
    const header = element("header", "", this.earlier, this.later, this.title, ...this.layouts, inStep, this.switches, this.tell, this.leave);
    this.grid = element("div", "reading-panes");
    this.extras = element("div", "reading-extras"); // of features
    this.metadata = Object.assign(element("section", "metadata", element("dl", "")), { hidden: true, tabIndex: 0 });
    this.metadata.setAttribute("aria-label", tr("Metadata"));
    this.dialog = element("dialog", "reading", header, this.grid, this.link, this.extras, this.metadata);
    this.dialog.setAttribute("aria-label", tr("Comparison of the query with results"));
    this.dialog.addEventListener("keydown", (event) => this.key(event));
    this.dialog.addEventListener("close", () => this.closed());
    for (const name of ["cbir-link", "cbir-ready"]) this.dialog.addEventListener(name, () => this.say());
    document.body.append(this.dialog);
  }

  open({ query, results, index, actions = {}, withMetadata = false }) {
    Object.assign(this, { results, actions, position: index, query, reported: null });
    this.panes = [new Pane(this)];
    this.panes[0].caption.append(element("span", "reading-words", element("strong", "", tr("Query")), ` ${query.caption}`));
    this.panes[0].node.hidden = !query.source;
    this.grid.replaceChildren(this.panes[0].node);
    if (!this.dialog.open) this.dialog.showModal();
    this.panes[0].show(query.source, tr("The query"));
    this.panes[0].viewer.marked = query.region ?? null;
    this.setCount(Number(remembered(STORAGE_KEY)) === 3 ? 3 : 1);
    this.toggleMetadata(withMetadata);
    this.panes[1].viewer.stage.focus();
  }

  /** Show one or three results beside the query. */
  setCount(count) {
    remember(STORAGE_KEY, String(count));
    this.grid.dataset.count = count;
    for (const each of this.layouts) each.setAttribute("aria-pressed", String(Number(each.dataset.count) === count));
    for (const pane of this.panes.splice(1 + count)) pane.node.remove();
    while (this.panes.length < 1 + count) {
      const pane = new Pane(this);
      this.panes.push(pane);
      this.grid.append(pane.node);
    }
    for (const { viewer } of this.panes) viewer.follows = { ...this.follows };
    this.show();
  }

  get shown() {
    return this.panes.slice(1).filter(({ result }) => result);
  }

  show() {
    const { results, position, panes } = this;
    const count = panes.length - 1;
    panes[0].viewer.goTo(panes[0].viewer.start); // the slice that the results were found with
    panes.slice(1).forEach((pane, at) => pane.result?.id !== results[position + at]?.id && pane.showResult(results[position + at]));
    const last = Math.min(position + count, results.length);
    this.title.textContent = tr("Result {first} of {count}", { first: last > position + 1 ? `${position + 1}–${last}` : position + 1, count: results.length });
    this.earlier.disabled = position === 0;
    this.later.disabled = position + 1 >= results.length;
    this.showMarks();
    this.say();
    if (!this.metadata.hidden) this.loadMetadata();
    if (this.reported !== results[position]) this.actions.shown?.(results[position]);
    this.reported = results[position];
    callParts("reading", this);
    for (const { id, collection } of results.slice(last, last + count)) loadPicture({ id, collection }).catch(() => {});
  }

  showMarks() {
    for (const { result, caption } of this.shown) {
      for (const each of caption.querySelectorAll("[data-mark]")) each.setAttribute("aria-pressed", String(this.actions.markOf?.(result.id) === each.dataset.mark));
    }
  }

  /** Say how slices are linked. */
  say() {
    const texts = { mm: tr("Slices are linked by millimetres."), fraction: tr("Slices are linked by their share of the series: positions are unknown.") };
    this.link.textContent = (this.follows.slices && texts[this.panes[0]?.viewer.linkedBy]) || "";
  }

  go(step) {
    const next = this.position + step;
    if (next < 0 || next >= this.results.length) return;
    this.position = next;
    this.show();
  }

  /** Let slices, window or zoom move together, or each for itself. */
  follow(name, isOn) {
    this.follows = { ...this.follows, [name]: isOn };
    for (const { viewer } of this.panes) viewer.follows = { ...this.follows };
    if (name === "slices") this.panes[0].viewer.link();
    this.say();
  }

  /** The pane of a result that has the focus, else the first one. */
  get current() {
    return this.shown.find(({ node }) => node.contains(document.activeElement)) ?? this.shown[0];
  }

  mark(pane, kind) {
    this.actions.mark?.(pane.result.id, kind);
    this.showMarks();
  }

  search(pane) {
    const { image } = pane;
    this.dialog.close();
    this.actions.search?.(image);
  }

  toggleMetadata(isOpen = this.metadata.hidden) {
    this.metadata.hidden = !isOpen;
    this.tell.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.loadMetadata();
  }

  async loadMetadata() {
    const { id, collection } = this.results[this.position];
    const list = this.metadata.firstElementChild;
    this.actions.told?.(this.results[this.position]);
    try {
      const loaded = await record({ collection, id });
      if (this.results[this.position].id === id) list.replaceChildren(...describe(loaded));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      list.replaceChildren(element("div", "", element("dt", "", error.title), element("dd", "", error.message)));
    }
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, .metadata, .reading-extras")) return;
    const { current } = this;
    const actions = {
      ArrowLeft: () => this.go(-1),
      ArrowRight: () => this.go(1),
      g: () => this.setCount(this.panes.length > 2 ? 1 : 3),
      i: () => this.toggleMetadata(),
      y: () => this.mark(current, "relevant"),
      n: () => this.mark(current, "irrelevant"),
      s: () => this.search(current),
      p: () => current.caption.querySelector("a")?.click(),
      f: () => this.shown.forEach(({ viewer }) => (viewer.flipped = !viewer.flipped)),
    };
    const action = !event.shiftKey && actions[event.key.length > 1 ? event.key : event.key.toLowerCase()];
    if (action) action();
    else if (!current.viewer.press(event)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  closed() {
    for (const { viewer } of this.panes) viewer.source = null;
    this.grid.replaceChildren();
    this.panes = [];
    this.actions.closed?.(this.results[this.position]);
  }
}

let view = null;

/**
 * Open the reading view.
 * query: {source, caption, region}, source as of <cbir-viewer>, null for words; region: in parts of its picture. results: [{id, collection, rank, title, facts, pacs, match}],
 * pacs: address of the image in the archive's viewer, or null. index: of the result that is shown.
 * actions: mark(id, kind), markOf(id) "relevant", "irrelevant" or null, search(id), shown(result), told(result): its metadata are, closed(result).
 */
export function openReading(options) {
  view ??= new ReadingView();
  view.open(options);
}

export function closeReading() {
  if (view?.dialog.open) view.dialog.close();
}
