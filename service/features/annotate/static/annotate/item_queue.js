// The items to judge: the one on the screen and those that follow. An item {ids} is a pair or a single image, as the page asks for.

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

  /** Go on to the next item and return it; null if there is none. */
  advance() {
    this.current = this.following.shift() ?? null;
    return this.current;
  }

  /** Do not ask for the current item again. */
  markAnswered() {
    this.answered.add(keyOf(this.current));
  }

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
