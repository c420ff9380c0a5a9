import assert from "node:assert/strict";
import { test } from "node:test";

import { curvePoints, foundAfter } from "./static/cohorts/curve.js";
import { latestFound } from "./static/cohorts/found_images.js";
import { Judgements } from "./static/cohorts/judgements.js";
import { forgetStart, keepStart, keptStart } from "./static/cohorts/start_cohort.js";

const storage = () => {
  const values = new Map();
  return { setItem: (key, value) => values.set(key, value), getItem: (key) => values.get(key) ?? null, removeItem: (key) => values.delete(key) };
};

test("judgements are in the order of the images, and taps go through all states", () => {
  const judgements = new Judgements(["a", "b", "c"]);
  judgements.mark("c", false);
  judgements.step("a");
  assert.deepEqual(judgements.list(), [{ image_id: "a", relevant: true }, { image_id: "c", relevant: false }]);
  judgements.step("a");
  assert.equal(judgements.of("a"), false);
  judgements.step("a");
  judgements.mark("c", false); // takes the same judgement back
  assert.equal(judgements.size, 0);
});

test("what is open is filled, and what is judged stays", () => {
  const judgements = new Judgements(["a", "b", "c"]);
  judgements.mark("b", false);
  judgements.fill(true);
  assert.deepEqual(judgements.list().map(({ relevant }) => relevant), [true, false, true]);
});

test("the curve counts what was found, and fits its box", () => {
  assert.deepEqual(foundAfter("1101"), [0, 1, 2, 2, 3]);
  const { line, level } = curvePoints(foundAfter("1".repeat(1000)), { width: 280, height: 140, inset: 8, top: 2000 });
  const points = line.split(" ").map((point) => point.split(",").map(Number));
  assert.ok(points.length <= 202);
  assert.deepEqual([points[0], points.at(-1)], [[8, 132], [272, 70]]);
  assert.equal(level(5000), 8); // above the box
});

test("the images found are shown from the latest, and not too many", () => {
  const images = Array.from({ length: 1000 }, (_, number) => ({ image_id: String(number), relevant: number % 2 === 0 }));
  const found = latestFound(images);
  assert.deepEqual([found.length, found[0].image_id, found.at(-1).image_id], [480, "998", "40"]);
  assert.deepEqual(latestFound([{ image_id: "a", relevant: false }]), []);
});

test("a start is kept for another page, once it has an image", () => {
  const kept = storage();
  assert.equal(keptStart(kept), null);
  keepStart({ collection: "", relevant: ["a"], irrelevant: [], where: [] }, kept);
  assert.deepEqual(keptStart(kept).relevant, ["a"]);
  forgetStart(kept);
  assert.equal(keptStart(kept), null);
  kept.setItem("cohort-start", "no JSON");
  assert.equal(keptStart(kept), null);
  assert.equal(keepStart({}, { setItem: () => { throw new Error("disabled"); } }), false);
});
