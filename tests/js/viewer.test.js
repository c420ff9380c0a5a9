import assert from "node:assert/strict";
import { test } from "node:test";

import { EIGHT_BIT, levelOf, levelTable, paintColours, paintGrey, windowInStep } from "./static/viewer/levels.js";
import { ellipseText, lengthText, shifted, valuesIn } from "./static/viewer/shapes.js";
import { actualScale, FITTED, layoutOf, moved, toPane, toPicture, zoomed } from "./static/viewer/place.js";
import { linkedIndex, linkOf, slicesAhead, stepsOf } from "./static/viewer/groups.js";
import { CbirViewer } from "./static/viewer/viewer.js";

const at = (positions, stack) => positions.map((position_mm) => ({ position_mm, stack }));

test("keys step through a stack", () => {
  assert.deepEqual(["ArrowUp", "ArrowDown", "PageDown", "End", "Home", "x"].map((key) => stepsOf(key, 30)), [-1, 1, 3, 30, -30, 0]);
  assert.equal(stepsOf("PageUp", 2), -1);
});

test("stacks are linked by as many mm from where they were linked", () => {
  const from = { slices: at([0, 5, 10, 15, 20]), anchor: 1, index: 3 };
  const to = { slices: at([-100, -97.5, -95, -92.5, -90, -87.5, -85]), anchor: 1, index: 1 };
  assert.equal(linkOf(from, to), "mm");
  assert.equal(linkedIndex(from, to), 5); // 10 mm are four slices of 2.5 mm
  assert.equal(linkedIndex({ ...from, index: 0 }, to), 0); // 5 mm back are two slices, and there is one
  assert.equal(linkedIndex({ ...from, index: 1 }, to), 1);
});

test("slices on both sides are loaded ahead, frames of one file are not", () => {
  const slices = Array.from({ length: 5 }, (_, id) => ({ id }));
  assert.deepEqual(slicesAhead(slices, 1).map(({ id }) => id), [2, 0, 3, 4]);
  const file = {};
  assert.deepEqual(slicesAhead([{ file, frame: 1 }, { file, frame: 2 }, { file: {} }], 0), [{ file: {} }]);
});

test("positions that fall count backwards", () => {
  const from = { slices: at([0, 5, 10]), anchor: 0, index: 1 };
  assert.equal(linkedIndex(from, { slices: at([30, 25, 20, 15]), anchor: 2, index: 2 }), 1);
});

test("slices of another stack have no distance", () => {
  const slices = [...at([0, 5, 10], 1), ...at([0, 5, 10], 2)];
  const to = { slices: at([0, 5, 10], 1), anchor: 0, index: 0 };
  assert.equal(linkedIndex({ slices, anchor: 0, index: 1 }, to), 1);
  assert.equal(linkedIndex({ slices, anchor: 0, index: 5 }, to), 2); // by parts of the stacks
  assert.equal(linkedIndex({ slices: to.slices, anchor: 0, index: 1 }, { slices, anchor: 3, index: 3 }), 4);
});

test("without positions stacks are linked by parts of their lengths", () => {
  const [from, to] = [{ slices: at(Array(11).fill(null)), anchor: 5, index: 10 }, { slices: at([0, 1, 2, 3, 4]), anchor: 2, index: 2 }];
  assert.equal(linkOf(from, to), "fraction");
  assert.equal(linkedIndex(from, to), 4);
  assert.equal(linkedIndex({ ...from, index: 0 }, to), 0);
  assert.equal(linkOf(from, { ...to, slices: to.slices.slice(0, 1) }), null);
});

test("of slices at one position the nearest in the stack is taken", () => {
  const to = { slices: at([0, 5, 0, 5, 0, 5], 1), anchor: 3, index: 3 };
  assert.equal(linkedIndex({ slices: at([0, 5], 1), anchor: 1, index: 0 }, to), 2);
});

test("a window maps values to grey levels as the service does", () => {
  assert.deepEqual([-1000, -160, 40, 240, 3000].map((value) => levelOf(value, [40, 400])), [0, 0, 128, 255, 255]);
  assert.deepEqual([40, 79, 80].map((value) => levelOf(value, [40, 80])), [129, 255, 255]); // brain: from 0 to 79
  assert.deepEqual([0, 1, 254, 255].map((value) => levelOf(value, EIGHT_BIT.window)), [0, 1, 254, 255]);
  assert.deepEqual([0, 0.5, 1].map((value) => levelOf(value, [0.5, 1], true)), [0, 128, 255]); // of NIfTI
  assert.deepEqual([0.25, 0.5, 0.75].map((value) => levelOf(value, [0.5, 0.5])), [0, 128, 255]); // of doses: exact below 1
  assert.deepEqual([4, 5, 6].map((value) => levelOf(value, [5, 0])), [0, 0, 255]);
});

test("stored numbers are rescaled before they are windowed", () => {
  const picture = { type: "int16", slope: 2, intercept: -1024, inverted: false };
  const words = new Uint32Array(3);
  paintGrey(new Int16Array([412, 532, 632]), "int16", levelTable(picture, [40, 400]), words);
  assert.deepEqual([...words].map((word) => word & 255), [-200, 40, 240].map((value) => levelOf(value, [40, 400])));
  assert.deepEqual([...words].map((word) => word >>> 24), [255, 255, 255]);
  paintGrey(new Int16Array([412, 532, 632]), "int16", levelTable({ ...picture, inverted: true }, [40, 400]), words);
  assert.deepEqual([...words].map((word) => word & 255), [255, 127, 0]);
  paintGrey(new Uint16Array([65535]), "uint16", levelTable({ ...picture, type: "uint16", slope: 1, intercept: 0 }, [32767.5, 65535]), words);
  assert.equal(words[0] & 255, 255);
});

test("colours go through the same window", () => {
  const pixels = new Uint8ClampedArray(8);
  const table = levelTable({ type: "uint8", slope: 1, intercept: 0 }, [64, 128]);
  paintColours(new Uint8Array([0, 64, 255, 1, 2, 3]), 3, table, pixels);
  assert.deepEqual([...pixels], [0, 129, 255, 255, 2, 4, 6, 255]);
});

test("Hounsfield units have one window, other values the same change of their own", () => {
  const ct = (window) => ({ unit: "HU", windowing: { window } });
  const mr = (window) => ({ unit: "", windowing: { window } });
  assert.deepEqual(windowInStep([-600, 1500], ct([40, 400]), ct([60, 300])), [-600, 1500]);
  assert.deepEqual(windowInStep([150, 400], mr([100, 200]), mr([1000, 1000])), [1250, 2000]);
  assert.equal(windowInStep(null, mr([1, 2]), mr([3, 4])), null);
  assert.equal(windowInStep([90, 150], ct([40, 400]), mr([100, 200])), undefined);
});

test("lengths are in mm where the spacing is known", () => {
  assert.equal(lengthText({ a: [10, 10], b: [40, -30] }, null), "50 px");
  assert.equal(lengthText({ a: [0, 0], b: [30, 40] }, { rows: 0.5, columns: 1 }), "36.1 mm");
});

/** The same by asking of each pixel of the picture whether its middle is in the ellipse. */
function statisticsOf(numbers, width, height, { a, b }) {
  const inside = [];
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const right = (column + 0.5 - (a[0] + b[0]) / 2) / ((b[0] - a[0]) / 2);
      const down = (row + 0.5 - (a[1] + b[1]) / 2) / ((b[1] - a[1]) / 2);
      if (right ** 2 + down ** 2 <= 1) inside.push(numbers[row * width + column]);
    }
  }
  const mean = inside.reduce((sum, value) => sum + value, 0) / inside.length;
  const squares = inside.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { count: inside.length, mean, deviation: Math.sqrt(squares / inside.length), least: Math.min(...inside), most: Math.max(...inside) };
}

test("mean and deviation of an ellipse are those of the pixels in it", () => {
  const [width, height] = [61, 47];
  const numbers = Array.from({ length: width * height }, (_, index) => 50000 + ((index * 7919) % 401) - 0.25 * (index % 7));
  const values = { width, height, at: (index) => numbers[index] };
  const ellipses = [[[3, 4], [40, 30]], [[40.3, 30.7], [3.1, 4.9]], [[10.2, 10.2], [11.1, 11.3]], [[-20, -10], [30, 30]], [[0, 0], [61, 47]]];
  for (const [a, b] of ellipses) {
    const [found, expected] = [valuesIn({ a, b }, values), statisticsOf(numbers, width, height, { a, b })];
    for (const name of Object.keys(expected)) assert.ok(Math.abs(found[name] - expected[name]) < 1e-6, `${name} of ${a} to ${b}: ${found[name]}, not ${expected[name]}`);
  }
  assert.equal(valuesIn({ a: [5, 5], b: [5, 9] }, values), null);
  assert.equal(valuesIn({ a: [200, 200], b: [220, 220] }, values), null);
});

test("an ellipse is described with its unit and area", () => {
  const picture = { spacing: { rows: 0.5, columns: 0.5 }, unit: "HU", factor: 1, values: { width: 40, height: 40, at: (index) => (index % 2 ? 30 : 50) } };
  assert.equal(ellipseText({ a: [10, 10], b: [30, 30] }, picture), "mean 40.0 ± 10.0 HU · 0.79 cm²");
  assert.equal(ellipseText({ a: [10, 10], b: [30, 30] }, { ...picture, spacing: null, unit: "", values: null }), "314 px²");
  const doses = { ...picture, unit: "", values: { ...picture.values, at: (index) => (index % 2 ? 0.003 : 0.005) } };
  assert.match(ellipseText({ a: [10, 10], b: [30, 30] }, doses), /^mean 0\.0040 ± 0\.0010/);
  const half = { ...picture, factor: 0.5, values: { width: 20, height: 20, at: (index) => Math.floor(index / 20) } };
  assert.match(ellipseText({ a: [10, 10], b: [30, 30] }, half), /^mean 9\.5/); // of a picture that was sent in half its size
});

test("keys move shapes within the picture", () => {
  const [shape, size] = [{ kind: "length", a: [5, 5], b: [15, 5] }, { width: 20, height: 10 }];
  assert.deepEqual(shifted(shape, [2, -1], size), { ...shape, a: [7, 4], b: [17, 4] });
  assert.deepEqual(shifted(shape, [9, 0], size), shape);
  assert.deepEqual(shifted(shape, [9, 2], size, true), { ...shape, b: [20, 7] });
});

test("a picture fits its pane, and points go there and back", () => {
  const [size, pane] = [{ width: 200, height: 100 }, { width: 400, height: 400 }];
  for (const options of [{}, { flipped: true }, { aspect: 2 }]) {
    const layout = layoutOf(size, pane, { scale: 2, x: 0.1, y: -0.2 }, options);
    const [x, y] = toPicture(layout, toPane(layout, [30, 70]));
    assert.ok(Math.abs(x - 30) < 1e-9 && Math.abs(y - 70) < 1e-9);
  }
  assert.deepEqual(toPane(layoutOf(size, pane), [0, 0]), [0, 100]);
  assert.deepEqual(toPane(layoutOf(size, pane, FITTED, { aspect: 2 }), [200, 100]), [400, 400]);
  assert.deepEqual(toPane(layoutOf(size, pane, FITTED, { flipped: true }), [200, 0]), [0, 100]);
});

test("what is under the pointer stays there when it is zoomed", () => {
  const [size, pane] = [{ width: 100, height: 100 }, { width: 300, height: 300 }];
  const before = toPicture(layoutOf(size, pane), [200, 120]);
  const place = zoomed(FITTED, 3, [200 / 300 - 0.5, 120 / 300 - 0.5]);
  const after = toPicture(layoutOf(size, pane, place), [200, 120]);
  assert.ok(Math.hypot(before[0] - after[0], before[1] - after[1]) < 1e-9);
  assert.deepEqual({ ...zoomed(place, 0.01), x: 0 }, FITTED);
  assert.equal(moved(FITTED, 0.5, 0.5).x, 0); // the picture covers the pane
  assert.equal(actualScale(size, pane, 2), 1 / 6);
  assert.equal(zoomed(FITTED, 1 / 6, [0, 0], 1 / 6).scale, 1 / 6);
});

test("what is shown beside a viewer that leads begins with the slice that belongs to its own", () => {
  const viewerOf = (count, index, leads) => Object.assign(new CbirViewer(), { isConnected: true, dispatch() {}, slices: at(Array(count).fill(null)), index, leads, linked: "led" });
  const query = viewerOf(11, 5, true);
  query.index = 7;
  const result = viewerOf(6, 2, false);
  assert.deepEqual([query.anchor, query.index, result.anchor, result.index], [5, 7, 2, 3]);
  query.link(); // where both stand now
  assert.deepEqual([query.anchor, result.anchor], [7, 3]);
});

test("reset gives window and zoom of the file back, here and in the group", () => {
  const viewerOf = (picture) => Object.assign(new CbirViewer(), { isConnected: true, dispatch() {}, picture, linked: "reset" });
  const [ct, other, mr] = [[40, 400], [60, 300], [100, 200]].map((window, index) => viewerOf({ unit: index < 2 ? "HU" : "", windowing: { window } }));
  const press = (key) => ct.press({ key, preventDefault() {}, stopPropagation() {} });
  mr.window = [90, 100];
  for (const key of ["5", "v", "+"]) press(key);
  assert.deepEqual([ct, other, mr].map(({ window, inverted, scale }) => [window, inverted, scale]), [[[-600, 1500], true, 1.25], [[-600, 1500], false, 1.25], [[90, 100], false, 1.25]]);
  press("0");
  assert.deepEqual([ct, other, mr].map(({ window, inverted, scale }) => [window, inverted, scale]), [[null, false, 1], [null, false, 1], [[90, 100], false, 1]]);
  assert.deepEqual(ct.shownWindow, [40, 400]);
});
