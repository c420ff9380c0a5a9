// The items to judge: the one on the screen and those that follow, whose pictures are loaded ahead; an item {ids} is a pair or a single image,
// as the page asks for. And judgements that the server has not stored yet: kept in the browser and sent in order, with retries.

import { tidy, windowInStep } from "../viewer/levels.js";
import { loadPicture } from "../viewer/picture_source.js";
import { remedyOf, send, sliceOf } from "./study_facts.js";

/** The same text for the same images, in any order. */
export const keyOf = ({ ids }) => [...ids].sort().join(" ");

export class ItemQueue {
  constructor() {
    Object.assign(this, { current: null, following: [], answered: new Set() });
  }

  /** Append items that are new; replace: drop those that follow, except the next one, which is loaded already. */
  add(items, replace = false) {
    if (replace) this.following = this.following.slice(0, 1);
    const seen = new Set([this.current, ...this.following].filter(Boolean).map(keyOf));
    this.following.push(...items.filter((item) => !seen.has(keyOf(item)) && !this.answered.has(keyOf(item))));
  }

  advance() {
    this.current = this.following.shift() ?? null;
    return this.current;
  }

  /** Do not ask for the current item again. */
  markAnswered = () => this.answered.add(keyOf(this.current));

  /** Show an item again whose answer was undone; the current one follows it. */
  takeBack(item) {
    const key = keyOf(item);
    this.answered.delete(key);
    this.following = this.following.filter((other) => keyOf(other) !== key);
    if (this.current && keyOf(this.current) !== key) this.following.unshift(this.current);
    this.current = item;
  }
}

export const TASKS = {
  pairs: {
    address: "/annotate/pairs",
    items: ({ pairs }) => pairs.map(({ first, second }) => ({ ids: [first, second] })),
    /** The item that an answer is about; null for a grade, which leaves the pair on the screen. */
    itemOf: ({ first, second }) => (first ? { ids: [first, second] } : null),
    /** Address and body of an answer: first, second, alike or skip. */
    request: ({ ids: [first, second] }, answer) => ["/annotate/judgements", { first, second, answer }],
    skipped: "skip",
  },
  images: {
    address: "/annotate/images",
    items: ({ images }) => images.map((image) => ({ ids: [image] })),
    itemOf: ({ image }) => (image ? { ids: [image] } : null),
    /** Address and body of an answer: a grade, or null for an image that cannot be judged. */
    request: ({ ids: [image] }, grade) => ["/annotate/grades", { image, grade }],
    skipped: null,
  },
};

const PRELOADED = 4; // items whose pictures are loaded ahead

let chosen = null; // {window, picture} by the person, null for that of each file

/** Show the pictures of the next items in a window {window, picture}, or each in its own. */
export function chooseWindow(detail) {
  chosen = detail.window && detail;
}

async function sourceOf(id, from) {
  const slice = sliceOf(id);
  const picture = await loadPicture(slice);
  const window = from && windowInStep(from.window, from.picture, picture);
  if (!window) return { kind: "address", ...slice };
  await loadPicture(slice, { window: tidy(window) });
  return { kind: "address", ...slice, window: tidy(window) };
}

/** Load the pictures of an item; resolves with their sources, which `item.loaded` has from then on. */
export function loadSources(item) {
  if (!item.loading || item.chosen !== chosen) {
    const loading = Promise.all(item.ids.map((id) => sourceOf(id, chosen)));
    const isLatest = () => item.loading === loading;
    Object.assign(item, { chosen, loading, loaded: null });
    loading.then((loaded) => isLatest() && (item.loaded = loaded), () => isLatest() && (item.loading = null)); // tried again when it is shown
  }
  return item.loading;
}

export const preload = (items) => items.slice(0, PRELOADED).forEach(loadSources);

const MIN_WAIT = 300; // ms
const MAX_WAIT = 4000; // ms

/** Run work on the browser's storage, which may be disabled or full: then items last while the page is open. */
function stored(work) {
  try {
    return work(localStorage);
  } catch {
    return null;
  }
}

export class Outbox {
  /** Calls onResponse(response) for each stored item, onError(error | null), and onChange(count) of the unsent items. */
  constructor(prefix, { onResponse, onError, onChange }) {
    Object.assign(this, { prefix, onResponse, onError, onChange, sending: false, count: 0, wait: MIN_WAIT });
    const keys = stored((storage) => Object.keys(storage).filter((key) => key.startsWith(prefix)).sort()) ?? [];
    this.items = keys.map((key) => ({ key, ...JSON.parse(localStorage.getItem(key)) }));
    this.flush();
  }

  get bodies() {
    return this.items.map((item) => item.body);
  }

  add(address, body) {
    this.count += 1;
    const position = `${Date.now()}-${String(this.count).padStart(6, "0")}`;
    const item = { key: `${this.prefix}${position}-${body.name}`, address, body };
    this.items.push(item);
    stored((storage) => storage.setItem(item.key, JSON.stringify({ address, body })));
    this.flush();
  }

  async flush() {
    this.onChange(this.items.length);
    if (this.sending) return;
    this.sending = true;
    while (this.items.length) {
      const [item] = this.items;
      try {
        const response = await send(item.address, item.body);
        this.remove(item);
        this.wait = MIN_WAIT;
        this.onError(null);
        this.onResponse(response);
      } catch (error) {
        this.onError(error);
        const remedy = remedyOf(error);
        if (remedy === "login") break; // sent after the page is reloaded
        if (remedy === "later") {
          await new Promise((resolve) => setTimeout(resolve, this.wait));
          this.wait = Math.min(2 * this.wait, MAX_WAIT);
        } else this.remove(item); // would be refused again; the page shows the error
      }
    }
    this.sending = false;
  }

  remove(item) {
    this.items.shift();
    stored((storage) => storage.removeItem(item.key));
    this.onChange(this.items.length);
  }
}
