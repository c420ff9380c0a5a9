import assert from "node:assert/strict";
import { test } from "node:test";

import { answered, choiceOf, missing, nextOpen, Stopwatch } from "./static/study/reading.js";

const items = (...answers) => answers.map((answer) => ({ answer: answer || null }));

test("the next open item is looked for from the present one on, and wraps around", () => {
  assert.equal(nextOpen(items(1, 0, 1, 0)), 1);
  assert.equal(nextOpen(items(1, 0, 1, 0), 2), 3);
  assert.equal(nextOpen(items(0, 1, 1), 2), 0);
  assert.equal(nextOpen(items(1, 1), 1), -1);
  assert.equal(nextOpen([]), -1);
});

test("answered items are counted", () => assert.equal(answered(items(1, 0, 1)), 2));

test("an answer without one of the three questions is incomplete", () => {
  assert.deepEqual(missing({ useful_left: "1", useful_right: "", better: "" }), ["useful_right", "better"]);
  assert.deepEqual(missing({ useful_left: "1", useful_right: "5", better: "equal" }), []);
});

test("keys rate the lists and say which is better", () => {
  assert.deepEqual(choiceOf("1"), { name: "useful_left", value: "1" });
  assert.deepEqual(choiceOf("5"), { name: "useful_left", value: "5" });
  assert.deepEqual(choiceOf("6"), { name: "useful_right", value: "1" });
  assert.deepEqual(choiceOf("9"), { name: "useful_right", value: "4" });
  assert.deepEqual(choiceOf("0"), { name: "useful_right", value: "5" });
  assert.deepEqual(choiceOf("L"), { name: "better", value: "left" });
  assert.deepEqual(choiceOf("e"), { name: "better", value: "equal" });
  for (const key of ["Enter", "x", "10", " "]) assert.equal(choiceOf(key), null);
});

test("time passes only while the page is visible", () => {
  let now = 0;
  const watch = new Stopwatch(() => now);
  now = 2000;
  assert.equal(watch.seconds, 2);
  watch.pause();
  now = 9000;
  watch.pause();
  assert.equal(watch.seconds, 2);
  watch.go();
  watch.go();
  now = 10000;
  assert.equal(watch.seconds, 3);
  watch.restart(7);
  now = 11000;
  assert.equal(watch.seconds, 8);
});
