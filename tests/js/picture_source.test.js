import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.createImageBitmap = async () => ({ width: 2, height: 1 });
const { forgetSeries, imageFacts, keepValues, loadPicture, slicesOfSeries } = await import("./static/viewer/picture_source.js");

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

test("the slices of a series are loaded once, until they are forgotten", async () => {
  let images = [{ image_id: "a", labels: {} }];
  globalThis.fetch = async () => Response.json({ items: images, next: null });
  const loaded = async () => (await slicesOfSeries("knees", { study: "1", series: "2" })).map(({ id }) => id);
  assert.deepEqual(await loaded(), ["a"]);
  images = [...images, { image_id: "b", labels: {} }];
  assert.deepEqual(await loaded(), ["a"]);
  forgetSeries();
  assert.deepEqual(await loaded(), ["a", "b"]);
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
