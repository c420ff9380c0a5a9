import assert from "node:assert/strict";
import { test } from "node:test";

import { asList, curvePoints, filled, foundAfter, stepped } from "./static/cohorts/cohort.js";
import { judged } from "./static/rounds.js";

const ids = ["a", "b", "c"];

test("judgements are in the order of the images, and taps go through all states", () => {
  let marks = stepped(judged(new Map(), "c", -1), "a");
  assert.deepEqual(asList(marks, ids), [{ image_id: "a", relevant: true }, { image_id: "c", relevant: false }]);
  marks = stepped(marks, "a");
  assert.equal(marks.get("a"), -1);
  marks = judged(stepped(marks, "a"), "c", -1); // takes the same judgement back
  assert.equal(marks.size, 0);
});

test("what is open is filled, what is judged stays, and the judgements of before are not changed", () => {
  const before = judged(new Map(), "b", -1);
  assert.deepEqual(asList(filled(before, ids, 1), ids).map(({ relevant }) => relevant), [true, false, true]);
  assert.equal(before.size, 1);
});

test("the curve counts what was found, and fits its box", () => {
  assert.deepEqual(foundAfter("1101"), [0, 1, 2, 2, 3]);
  const { line, level } = curvePoints(foundAfter("1".repeat(1000)), { width: 280, height: 140, inset: 8, top: 2000 });
  const points = line.split(" ").map((point) => point.split(",").map(Number));
  assert.ok(points.length <= 202);
  assert.deepEqual([points[0], points.at(-1)], [[8, 132], [272, 70]]);
  assert.equal(level(5000), 8); // above the box
});
