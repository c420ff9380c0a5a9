import assert from "node:assert/strict";
import { test } from "node:test";

import { latest } from "./static/viewer/picture_source.js";
import { PRESETS, dragged } from "./static/viewer/levels.js";

test("only the latest call is worked on after the present one", async () => {
  const seen = [];
  let value = 0;
  const work = latest(async () => {
    const begun = value;
    await new Promise((resolve) => setTimeout(resolve, 5));
    seen.push(begun);
  });
  const done = [1, 2, 3].map((next) => {
    value = next;
    return work();
  });
  await Promise.all(done);
  assert.deepEqual(seen, [1, 3]);
  value = 4;
  await work();
  assert.deepEqual(seen, [1, 3, 4]);
});

test("presets are windows", () => {
  assert.equal(PRESETS.every(({ window }) => window[1] > 0), true);
});

test("a drag to the right widens the window, down it makes the picture darker", () => {
  assert.deepEqual(dragged([40, 400], 100, 0, [-1024, 1024]), [40, 400 + 102.4]);
  assert.deepEqual(dragged([40, 400], 0, 10, [-1024, 1024]), [40 + 10.24, 400]);
  assert.equal(dragged([40, 400], -9999, 0, [-1024, 1024])[1], 1);
  const [center, width] = dragged([0.5, 1], 100, 100, [0, 1]);
  assert.deepEqual([center.toFixed(2), width.toFixed(2)], ["0.60", "1.10"]);
});
