import assert from "node:assert/strict";
import { test } from "node:test";

import { BATCH, batchOf, Explanations, partsOf } from "./static/explain/paint.js";
import { heatColour, heatPixels, heatRange, strongestEdges } from "./static/explain/paint.js";

test("weak matches are not coloured, better ones are more opaque", () => {
  const range = { least: 0.3, most: 1 };
  assert.equal(heatColour(0, range)[3], 0);
  assert.equal(heatColour(0.3, range)[3], 0);
  assert.ok(heatColour(0.5, range)[3] < heatColour(0.9, range)[3]);
  assert.deepEqual(heatColour(1, range), heatColour(2, range));
  assert.equal(heatPixels([[0, 1], [1, 0], [0, 0]], range).length, 24);
});

test("only what stands out is coloured", () => {
  const alike = heatRange({ query_map: [[0.9, 0.9, 0.9, 0.95]], answer_map: [[0, 0.92, 0.94, 0.95]] });
  assert.equal(heatColour(0.9, alike)[3], 0); // the usual match
  assert.ok(heatColour(0.95, alike)[3] < heatColour(1, alike)[3]); // and hardly better ones are pale
  const cutOut = heatRange({ query_map: [[0.8, 0.8]], answer_map: [[0.4, 0.4, 0.4, 0.8]] });
  assert.deepEqual(cutOut, { least: 0.4, most: 0.8 }); // all of the cut-out is coloured, and where it is in the result
  const unlike = heatRange({ query_map: [[0.1, 0.2]], answer_map: [[0, 0]] });
  assert.equal(heatColour(0.2, unlike)[3], 0);
});

test("the strongest edges have a direction unless they have none", () => {
  const none = [0, 0, 0, 0, 0.05];
  const edges = [[[0.5, 0.1, 0, 0, 0], none], [[0, 0, 0.3, 0, 0.1], [0, 0, 0, 0, 0.4]]];
  const strongest = strongestEdges(edges);
  assert.deepEqual(strongest.map(({ row, column }) => [row, column]), [[0, 0], [1, 0], [1, 1]]);
  assert.deepEqual(strongest.map(({ direction }) => direction), [[0, 1], [1, -1], null]);
});

test("parts are named, the largest first", () => {
  const parts = partsOf({ color_layout: 0.125, tamura: 0, edge_histogram: 0.875, other: 0 });
  assert.deepEqual(parts.map(({ name }) => name), ["Edges", "Colour", "Texture", "other"]);
  assert.equal(parts[0].text, "88%");
});

test("a batch is the result and those after it that are not known", () => {
  const images = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
  assert.deepEqual(batchOf("b", images, (id) => id === "c"), ["b", "d", "e", "f", "g", "h"]);
  assert.equal(batchOf("a", images, () => false).length, BATCH);
  assert.deepEqual(batchOf("x", [], () => false), ["x"]);
});

test("explanations are kept for a query, and requested again after a failure", async () => {
  const requests = [];
  let fails = true;
  const explanations = new Explanations(async (query, ids) => {
    requests.push([query.image, ...ids]);
    if (fails) throw new Error("busy");
    return { kind: "places", items: ids.map((id) => ({ image_id: id })) };
  });
  const [query, other] = [{ image: "q" }, { image: "r" }];
  assert.equal(await explanations.of(query, "a", ["a", "b"]), null);
  fails = false;
  assert.deepEqual(await explanations.of(query, "a", ["a", "b"]), { kind: "places", image_id: "a" });
  await explanations.of(query, "b", ["a", "b"]);
  await explanations.of(other, "b", ["a", "b"]);
  assert.deepEqual(requests, [["q", "a", "b"], ["q", "a", "b"], ["r", "b"]]);
});
