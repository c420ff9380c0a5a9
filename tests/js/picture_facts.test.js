import assert from "node:assert/strict";
import { test } from "node:test";

import { imageFacts } from "./static/image_facts.js";
import { latest } from "./static/latest.js";
import { PRESETS, dragged } from "./static/window_presets.js";

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

test("facts of a picture come from its headers", () => {
  const headers = new Headers({ "Image-Size": "30,20", "Image-Window": "40,400", "Image-Values": "-1,9", "Image-Frames": "3", "Image-Spacing": "0.5,0.7" });
  assert.deepEqual(imageFacts(headers), {
    size: { width: 30, height: 20 },
    windowing: { window: [40, 400], values: [-1, 9] },
    frames: 3,
    spacing: { rows: 0.5, columns: 0.7 },
    modality: "",
  });
  assert.deepEqual(imageFacts(new Headers()), { size: null, windowing: null, frames: 1, spacing: null, modality: "" });
});
