// Frames of matches: shares of the sides become pixels of the picture.

import assert from "node:assert/strict";
import { test } from "node:test";

import { placeOf } from "./static/match_frame.js";

test("the place is in pixels of the picture", () => {
  assert.deepEqual(placeOf({ x: 0.25, y: 0.5, width: 0.5, height: 0.25 }, 400, 200), { x: 100, y: 100, width: 200, height: 50 });
});
