import assert from "node:assert/strict";
import { test } from "node:test";

import * as conditions from "./static/browse/conditions.js";
import { movedPosition, visibleTiles } from "./static/browse/grid.js";
import { ImagePages } from "./static/browse/image_pages.js";
import { Selection } from "./static/browse/image_pages.js";

test("an address has the whole state, and gives it back", () => {
  const state = { where: ["a=b & c", "grade>=1"], sort: "-label:grade", view: "images", study: "", series: "", others: { key: "label", hits: "ab,cd" } };
  const text = conditions.write(state, "knees");
  assert.match(text, /^\?collection=knees&/);
  assert.deepEqual(conditions.read(text), state);
  const usual = { where: [], sort: "newest", view: "images", study: "", series: "", others: {} };
  assert.deepEqual(conditions.read("?view=nonsense&where=&lang=de&chosen=1"), usual);
  assert.equal(conditions.write(usual, ""), "/browse");
  assert.equal(conditions.read("?view=series", { images: "Images", series: "Series" }).view, "series");
  assert.equal(conditions.read("?view=series").view, "images"); // of a collection without series
});

test("values of a key are chosen and dropped", () => {
  const once = conditions.toggle(["x=1"], "a=b=c");
  assert.deepEqual(once, ["x=1", "a=b=c"]);
  assert.deepEqual(conditions.valuesOf(once, "a"), ["b=c"]);
  assert.deepEqual(conditions.valuesOf(["a!=b", "ab=c", "a?"], "a"), []);
  assert.deepEqual(conditions.toggle(once, "a=b=c"), ["x=1"]);
});

test("limits of a key replace its earlier ones", () => {
  const where = conditions.withRange(["x=1", "grade>=1", "grade=3"], "grade", { minimum: "2", maximum: "4" });
  assert.deepEqual(where, ["x=1", "grade=3", "grade>=2", "grade<=4"]);
  assert.deepEqual(conditions.rangeOf(where, "grade"), { minimum: "2", maximum: "4" });
  assert.deepEqual(conditions.withRange(where, "grade", { minimum: "", maximum: "" }), ["x=1", "grade=3"]);
});

test("counts of a key do not follow what is chosen of it", () => {
  const where = ["a=1", "a=2", "a>=0", "a!=3", "b=1", "!c?"];
  assert.deepEqual(conditions.conditionsBeside(where, "a"), ["a!=3", "b=1", "!c?"]);
});

test("a condition has a key, an operator, and maybe a value", () => {
  assert.deepEqual(conditions.parse("a >= 3"), { key: "a", operator: ">=", value: "3" });
  assert.deepEqual(conditions.parse("!a b?"), { key: "a b", operator: "!?", value: "" });
  assert.deepEqual(conditions.parse("what?=no?"), { key: "what?", operator: "=", value: "no?" });
  assert.equal(conditions.parse("nothing"), null);
});

test("a selection extends from the last single choice", () => {
  const list = [..."abcdef"];
  const selection = new Selection();
  selection.toggle(list, 3);
  selection.extend(list, 1);
  assert.deepEqual([...selection.ids].sort(), ["b", "c", "d"]);
  selection.toggle(list, 2);
  assert.deepEqual([...selection.ids].sort(), ["b", "d"]);
  selection.extend(list, 5);
  assert.deepEqual([...selection.ids].sort(), ["b", "c", "d", "e", "f"]);
  selection.extend(list, 99);
  selection.toggle(list, -1);
  assert.equal(selection.ids.size, 5);
  selection.add(list);
  assert.equal(selection.ids.size, 6);
  selection.clear();
  assert.equal(selection.ids.size, 0);
});

test("only rows in sight, and two beyond, are in the document", () => {
  const layout = { columns: 5, rowHeight: 100, height: 350 };
  assert.deepEqual(visibleTiles({ count: 100_000, ...layout, top: -80 }), { first: 0, last: 25, before: 0, after: 1_999_500 });
  assert.deepEqual(visibleTiles({ count: 100_000, ...layout, top: 1000 }), { first: 40, last: 80, before: 800, after: 1_998_400 });
  const end = visibleTiles({ count: 23, ...layout, top: 90_000 });
  assert.deepEqual(end, { first: 20, last: 23, before: 400, after: 0 });
  assert.deepEqual(visibleTiles({ count: 0, ...layout, top: 0 }), { first: 0, last: 0, before: 0, after: 0 });
});

test("keys move within the grid", () => {
  const grid = { count: 12, columns: 5, page: 2 };
  assert.equal(movedPosition("ArrowRight", 11, grid), 11);
  assert.equal(movedPosition("ArrowDown", 3, grid), 8);
  assert.equal(movedPosition("ArrowDown", 8, grid), 8);
  assert.equal(movedPosition("ArrowUp", 3, grid), 3);
  assert.equal(movedPosition("PageDown", 3, grid), 11);
  assert.equal(movedPosition("Home", 7, grid), 0);
  assert.equal(movedPosition("End", 7, grid), 11);
  assert.equal(movedPosition("x", 7, grid), undefined);
});

const image = (image_id, labels = {}) => ({ image_id, labels });

test("pages follow each other, an image that moved is not repeated", async () => {
  const calls = [];
  const answers = [{ items: [image("a"), image("b")], next: "n" }, { items: [image("b"), image("c")], next: null }];
  const pages = new ImagePages(async (cursor) => {
    calls.push(cursor);
    return answers[calls.length - 1];
  });
  await Promise.all([pages.more(), pages.more()]); // one request
  assert.deepEqual([calls, pages.ids, pages.done], [[null], ["a", "b"], false]);
  await pages.more();
  assert.deepEqual([calls, pages.ids, pages.done], [[null, "n"], ["a", "b", "c"], true]);
  assert.equal(await pages.more(), false);
  pages.replace([image("a", { note: "new" }), image("x")]);
  assert.deepEqual(pages.item("a").labels, { note: "new" });
  assert.equal(pages.items.length, 3);
  pages.replace([image("a")]);
  pages.remove(["b"]);
  assert.deepEqual(pages.records(["c", "b", "a"]), [image("c"), image("a")]);
});

test("a failed page can be loaded again, a stopped list takes none", async () => {
  let fails = true;
  const pages = new ImagePages(async () => {
    if (fails) throw new Error("busy");
    return { items: [image("a")], next: null };
  });
  await assert.rejects(pages.more(), /busy/);
  fails = false;
  await pages.more();
  assert.deepEqual(pages.ids, ["a"]);
  const stopped = new ImagePages(async () => ({ items: [image("a")], next: null }));
  const pending = stopped.more();
  stopped.stop();
  assert.equal(await pending, false);
  assert.deepEqual(stopped.ids, []);
});

test("a request that failed is remembered until one succeeds", async () => {
  const answers = [Promise.reject(new Error("busy")), Promise.resolve({ items: [], next: null })];
  const pages = new ImagePages(() => answers.shift());
  await assert.rejects(pages.more(), /busy/);
  assert.equal(pages.failed, true);
  await pages.more();
  assert.deepEqual([pages.failed, pages.done], [false, true]);
});
