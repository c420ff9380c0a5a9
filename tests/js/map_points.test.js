import assert from "node:assert/strict";
import { test } from "node:test";

const { imagesIn, loadPoints } = await import("./static/map/points.js");
const { state } = await import("./static/page_state.js");

test("an area has the images of one map, also if the collection changes meanwhile", async () => {
  const maps = [
    { generation: 1, ids: ["a", "b", "c"], x: [0, 0.5, 0.9], y: [0, 0, 0] },
    { generation: 2, ids: ["b", "c"], x: [0.5, 0.9], y: [0, 0] },
  ];
  const asked = [];
  const answers = { map: () => ({ state: "ready", ...maps[Math.min(asked.filter((path) => path === "map").length, 2) - 1] }), "map/labels/kind": () => ({ generation: 2, values: ["knee"], codes: [0, 0] }) };
  globalThis.fetch = async (address) => {
    const path = address.replace("/v1/collections/knees/", "");
    asked.push(path);
    return Response.json(answers[path]());
  };
  state.facts = { collection: "knees" };
  await loadPoints();
  const right = imagesIn("0.4,-1,1,-1,1,1,0.4,1");
  const [ids, values, all] = await Promise.all([right.ids(["kind=knee"], "oldest"), right.values("kind", [], 9), right.ids(["kind=knee"], "newest")]);
  assert.deepEqual([ids, all], [["b", "c"], ["c", "b"]]);
  assert.deepEqual(values.items, [{ value: "knee", images: 2 }]);
  assert.equal(asked.filter((path) => path === "map").length, 2); // once again for all of them
});
