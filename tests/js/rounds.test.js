import assert from "node:assert/strict";
import { test } from "node:test";

import { asText, changes, parse, without } from "./static/rounds.js";

test("judgements survive being text", () => {
  assert.equal(asText(parse("a,-b,c")), "a,-b,c");
  assert.deepEqual([...parse("")], []);
});

test("a round changes what it adds, turns round or removes", () => {
  const [first, second] = changes(["a,-b", "-a,c"]);
  assert.deepEqual([...first], [["a", 1], ["b", -1]]);
  assert.deepEqual([...second], [["a", -1], ["c", 1], ["b", 0]]);
});

test("without a round the changes of the others stay", () => {
  assert.deepEqual(without(["a", "a,-b", "a,-b,c"], 1), ["a", "a,c"]);
  assert.deepEqual(without(["a", "a,-b"], 0), ["-b"]);
  assert.deepEqual(without(["a"], 0), []);
});

test("a round that only took back the removed one is left out", () => {
  assert.deepEqual(without(["a", "a,b", "a"], 1), ["a"]);
});
