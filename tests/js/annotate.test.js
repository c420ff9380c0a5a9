import assert from "node:assert/strict";
import { test } from "node:test";

import { ItemQueue, keyOf } from "./static/annotate/item_queue.js";
import { changeRequest, choices, withdrawnNames } from "./static/annotate/review/answer_card.js";
import { TASKS } from "./static/annotate/item_queue.js";
import { addressOf } from "./static/annotate/study_facts.js";

const item = (...ids) => ({ ids });
const keys = (queue) => [queue.current, ...queue.following].map((one) => one && keyOf(one));

test("a pair is the same in both orders", () => {
  assert.equal(keyOf(item("b", "a")), keyOf(item("a", "b")));
});

test("items come once, and not after their answer", () => {
  const queue = new ItemQueue();
  queue.add([item("a"), item("b")]);
  queue.add([item("b"), item("c")]);
  assert.equal(queue.advance().ids[0], "a");
  queue.markAnswered();
  queue.advance();
  queue.add([item("a"), item("b"), item("d")]);
  assert.deepEqual(keys(queue).filter((key) => key === "a"), []);
  assert.deepEqual(new Set(keys(queue)), new Set(["b", "c", "d"]));
});

test("better items replace those that follow, except the next one", () => {
  const queue = new ItemQueue();
  queue.add([item("a"), item("b"), item("c")]);
  queue.advance();
  queue.add([item("x")], true);
  assert.deepEqual(keys(queue), ["a", "b", "x"]);
});

test("an undone item comes back before the current one", () => {
  const queue = new ItemQueue();
  queue.add([item("a"), item("b")]);
  queue.advance();
  queue.markAnswered();
  queue.advance();
  queue.takeBack(item("a"));
  assert.deepEqual(keys(queue), ["a", "b"]);
  queue.takeBack(item("a"));
  assert.deepEqual(keys(queue), ["a", "b"]);
  assert.equal(queue.advance().ids[0], "b");
  assert.equal(queue.advance(), null);
});

test("requests of both tasks", () => {
  assert.deepEqual(TASKS.pairs.items({ pairs: [{ first: "a", second: "b" }] }), [item("a", "b")]);
  assert.deepEqual(TASKS.pairs.request(item("a", "b"), "alike"), ["/annotate/judgements", { first: "a", second: "b", answer: "alike" }]);
  assert.equal(TASKS.pairs.itemOf({ image: "a" }), null);
  assert.deepEqual(TASKS.images.items({ images: ["a"] }), [item("a")]);
  assert.deepEqual(TASKS.images.request(item("a"), null), ["/annotate/grades", { image: "a", grade: null }]);
  assert.equal(TASKS.images.itemOf({ first: "a", second: "b" }), null);
});

test("decisions and their changes", () => {
  const grades = [{ value: "0", name: "none" }, { value: "1.5", name: "mild" }];
  assert.deepEqual(choices({ kind: "grade" }, grades), ["0", "1.5", "none"]);
  assert.deepEqual(changeRequest({ kind: "grade", image: "a" }, "1.5"), ["/annotate/grades", { image: "a", grade: 1.5 }]);
  assert.deepEqual(changeRequest({ kind: "grade", image: "a" }, "none"), ["/annotate/grades", { image: "a", grade: null }]);
  const pair = { kind: "pair", first: "a", second: "b" };
  assert.deepEqual(changeRequest(pair, "skip"), ["/annotate/judgements", { first: "a", second: "b", answer: "skip" }]);
});

test("withdrawing undoes earlier answers first", () => {
  assert.deepEqual(withdrawnNames({ name: "c", earlier: [{ name: "a" }, { name: "b" }] }), ["a", "b", "c"]);
});

test("filters that are not set are not sent", () => {
  assert.equal(addressOf("/annotate/judgements", { judged_by: "", decision: "first" }), "/annotate/judgements?decision=first");
});
