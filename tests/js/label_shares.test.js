import assert from "node:assert/strict";
import { test } from "node:test";

import { labelKeys, shares } from "./static/search/side.js";

const hits = (...labels) => labels.map((each) => ({ labels: each }));

test("the key label comes first, then the most frequent", () => {
  const results = hits({ organ: "hand", age: "3" }, { organ: "head", label: "x" }, { organ: "head" });
  assert.deepEqual(labelKeys(results), ["label", "organ", "age"]);
  assert.deepEqual(labelKeys([]), []);
});

test("shares are of all results, the most frequent value first", () => {
  const results = hits({ a: "x" }, { a: "y" }, { a: "y" }, {});
  assert.deepEqual(shares(results, "a"), [
    { value: "y", count: 2, share: 0.5 },
    { value: "x", count: 1, share: 0.25 },
    { value: undefined, count: 1, share: 0.25 },
  ]);
});

test("values beyond the seventh are one part", () => {
  const results = hits(...[..."aabcdefghi"].map((value) => ({ key: value })));
  const parts = shares(results, "key");
  assert.equal(parts.length, 8);
  assert.deepEqual(parts.at(-1), { value: null, count: 2, share: 0.2 });
  assert.equal(parts.reduce((sum, { count }) => sum + count, 0), results.length);
});

test("a key that every object has is missing from results without that label", () => {
  const results = [{ labels: { constructor: "a" } }, { labels: {} }];
  assert.deepEqual(shares(results, "constructor"), [
    { value: "a", count: 1, share: 0.5 },
    { value: undefined, count: 1, share: 0.5 },
  ]);
});

test("labels of persons are the last keys", () => {
  const results = [{ labels: { age: "54", sex: "F", body_part: "KNEE" } }, { labels: { age: "61", sex: "F" } }];
  assert.deepEqual(labelKeys(results), ["body_part", "age", "sex"]);
});
