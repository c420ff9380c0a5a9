import assert from "node:assert/strict";
import { test } from "node:test";

import { contentShift, movedPlace } from "./static/lens_place.js";
import { captionOf } from "./static/query_caption.js";

test("arrow keys move the magnifier within the pane", () => {
  const [x, y] = movedPlace("ArrowRight", [0.5, 0.5]);
  assert.ok(x > 0.5 && y === 0.5);
  assert.deepEqual(movedPlace("ArrowUp", [0.5, 0.01]), [0.5, 0]);
  assert.ok(movedPlace("ArrowLeft", [0.5, 0.5], true)[0] < movedPlace("ArrowLeft", [0.5, 0.5])[0]);
  assert.equal(movedPlace("Enter", [0.5, 0.5]), undefined);
});

test("the place under the pointer is in the middle of the magnifier", () => {
  const [x, y] = contentShift([0.25, 0.5], { width: 400, height: 200 }, 100, 2);
  assert.deepEqual([x + 2 * 100, y + 2 * 100], [50, 50]);
});

test("captions name image, region, format and slice", () => {
  const info = { width: 30, height: 20, format: "dicom", frame: 3 };
  assert.equal(captionOf({ image: "0123456789" }, info), "Image 01234567 of the collection · 30 × 20 · DICOM, frame 3");
  assert.match(captionOf({ file: "f", slices: [1, 2], slice: 1 }, info), /^Your image · 30 × 20 · DICOM, slice 2$/);
  assert.match(captionOf({ file: "f", region: [1, 2, 3, 4] }, { ...info, frame: null }), /region 3 × 4 at 1, 2 · DICOM$/);
});
