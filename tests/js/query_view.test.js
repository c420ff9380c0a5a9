import assert from "node:assert/strict";
import { test } from "node:test";

import { imageFacts } from "./static/image_facts.js";
import { latest } from "./static/latest.js";
import { atPosition, positionOf, stepped, stepsOf } from "./static/positions.js";
import { Renderings } from "./static/renderings.js";
import { lengthText } from "./static/ruler_length.js";
import { PRESETS, dragged, takesPresets } from "./static/window_presets.js";

test("slices, examples and frames have a position, single images none", () => {
  const [a, b] = ["a", "b"];
  assert.deepEqual(positionOf({ file: b, slices: [a, b], slice: 1 }, 1), { index: 1, count: 2, word: "Slice" });
  assert.deepEqual(positionOf({ file: b, files: [a, b] }, 1), { index: 1, count: 2, word: "Example" });
  assert.deepEqual(positionOf({ file: a, frame: 3 }, 12), { index: 2, count: 12, word: "Frame" });
  assert.equal(positionOf({ file: a, frame: 1 }, 1), null);
  assert.equal(positionOf({ image: "x" }, 5), null);
});

test("another position has another file or frame, and no region", () => {
  assert.deepEqual(atPosition({ slices: ["a", "b"], slice: 0 }, 1), { file: "b", slice: 1, region: null });
  assert.deepEqual(atPosition({ files: ["a", "b"] }, 1), { file: "b" });
  assert.deepEqual(atPosition({ file: "a", frame: 1 }, 4), { frame: 5, region: null });
});

test("steps stay within the stack", () => {
  const position = { index: 3, count: 30 };
  assert.deepEqual([-9, 1, 99].map((by) => stepped(position, by)), [0, 4, 29]);
  assert.deepEqual(["ArrowUp", "PageDown", "End", "x"].map((key) => stepsOf(key, 30)), [-1, 3, 30, 0]);
  assert.equal(stepsOf("PageUp", 2), -1);
});

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

test("renderings are kept, but not failed ones", async () => {
  let calls = 0;
  const renderings = new Renderings(async ({ frame }) => {
    calls += 1;
    if (frame === 9) throw new Error("no frame");
    return frame;
  });
  const file = {};
  assert.equal(await renderings.get({ file, frame: 1, window: null }), 1);
  assert.equal(await renderings.get({ file, frame: 1, window: null }), 1);
  assert.equal(calls, 1);
  await renderings.get({ file, frame: 1, window: [40, 400] });
  await renderings.get({ file: {}, frame: 1, window: null });
  assert.equal(calls, 3);
  await assert.rejects(renderings.get({ file, frame: 9 }));
  await assert.rejects(renderings.get({ file, frame: 9 }));
  assert.equal(calls, 5);
  for (let frame = 10; frame < 70; frame++) await renderings.get({ file, frame });
  await renderings.get({ file, frame: 1, window: null });
  assert.equal(calls, 66);
});

test("presets are for Hounsfield units", () => {
  const windowing = { window: [40, 400], values: [-1024, 3000] };
  assert.equal(takesPresets({ windowing, modality: "CT" }), true);
  assert.equal(takesPresets({ windowing, modality: "MR" }), false);
  assert.equal(takesPresets({ windowing: null, modality: "CT" }), false);
  assert.equal(PRESETS.every(({ window }) => window[1] > 0), true);
});

test("a drag to the right widens the window, down it makes the picture darker", () => {
  assert.deepEqual(dragged([40, 400], 100, 0, [-1024, 1024]), [40, 400 + 102.4]);
  assert.deepEqual(dragged([40, 400], 0, 10, [-1024, 1024]), [40 + 10.24, 400]);
  assert.equal(dragged([40, 400], -9999, 0, [-1024, 1024])[1], 1);
  const [center, width] = dragged([0.5, 1], 100, 100, [0, 1]);
  assert.deepEqual([center.toFixed(2), width.toFixed(2)], ["0.60", "1.10"]);
});

test("lengths are in mm where the spacing is known", () => {
  assert.equal(lengthText(30, -40, null), "50 px");
  assert.equal(lengthText(30, 40, { rows: 0.5, columns: 1 }), "36.1 mm (50 px)");
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
