import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.document = { getElementById: () => null, querySelector: () => null, documentElement: { lang: "en" } };
globalThis.createImageBitmap = async () => ({ width: 2, height: 1 });
const { keepValues, loadPicture } = await import("./static/viewer/picture_source.js");

const facts = (linear) => ({ type: "uint8", width: 2, height: 1, image_width: 2, image_height: 1, slope: 1, intercept: 0, unit: "", inverted: false, linear, exact: false, window: { center: 1, width: 2 }, least: 0, greatest: 2, spacing: null, modality: "MR", frames: 1 });

test("a file with a curve of its own is shown by it, also with the values of its answer", async () => {
  const requests = [];
  globalThis.fetch = async (address) => {
    requests.push(address);
    return new Response("a picture");
  };
  for (const [linear, asked] of [[true, []], [false, ["/v1/render"]]]) {
    const file = new File(["x"], "x");
    keepValues({ file, frame: 1 }, { facts: facts(linear), data: btoa("\x01\x02") });
    const picture = await loadPicture({ file, frame: 1 });
    assert.deepEqual([...picture.stored], [1, 2]);
    assert.equal(Boolean(picture.bitmap), !linear);
    assert.deepEqual(requests, asked);
  }
});
