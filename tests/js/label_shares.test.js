import assert from "node:assert/strict";
import { test } from "node:test";

import { shareKeys, shareParts } from "./static/search/verdict.js";

const hits = (...labels) => labels.map((each) => ({ labels: each }));

test("the key label comes first, then the most frequent", () => {
  const results = hits({ organ: "hand", age: "3" }, { organ: "head", label: "x" }, { organ: "head" });
  assert.deepEqual(shareKeys(results), ["label", "organ", "age"]);
  assert.deepEqual(shareKeys([]), []);
});

test("shares are of all results, the most frequent value first", () => {
  const results = hits({ a: "x" }, { a: "y" }, { a: "y" }, {});
  assert.deepEqual(shareParts(results, "a"), [
    { name: "y", count: 2, rest: false },
    { name: "x", count: 1, rest: false },
    { name: "without a", count: 1, rest: true },
  ]);
});

test("values beyond the seventh are one part", () => {
  const results = hits(...[..."aabcdefghi"].map((value) => ({ key: value })));
  const parts = shareParts(results, "key");
  assert.equal(parts.length, 8);
  assert.deepEqual(parts.at(-1), { name: "other values", count: 2, rest: true });
  assert.equal(parts.reduce((sum, { count }) => sum + count, 0), results.length);
});

test("a key that every object has is missing from results without that label", () => {
  const results = [{ labels: { constructor: "a" } }, { labels: {} }];
  assert.deepEqual(shareParts(results, "constructor"), [
    { name: "a", count: 1, rest: false },
    { name: "without constructor", count: 1, rest: true },
  ]);
});

test("labels of persons are the last keys", () => {
  const results = [{ labels: { age: "54", sex: "F", body_part: "KNEE" } }, { labels: { age: "61", sex: "F" } }];
  assert.deepEqual(shareKeys(results), ["body_part", "age", "sex"]);
});

test("places come before labels of persons, and labels of the file's technique never", () => {
  const person = { sex: "F", photometric: "MONOCHROME2", secondary_capture: "yes", laterality: "L" };
  assert.deepEqual(shareKeys(hits(person, person, { ...person, reader: "x" })), ["reader", "laterality", "sex"]);
});
