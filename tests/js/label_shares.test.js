import assert from "node:assert/strict";
import { test } from "node:test";

import { agreementText, labelKeys, likenessText, shares } from "./static/label_shares.js";

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

test("agreement is stated with its measured share, and never as certain", () => {
  const agreement = { key: "modality", value: "CT", agreeing: 8, answers: 10, right: 0.912, images: 132 };
  assert.match(agreementText(agreement), /^8 of the first 10 results agree on CT: right in 91 % of 132 .* Not a diagnosis\.$/);
  assert.match(agreementText({ ...agreement, right: 0.998 }), /right in 99 %/);
  assert.equal(agreementText({ ...agreement, right: null, images: null }), "8 of the first 10 results agree on CT.");
  assert.equal(agreementText(undefined), "");
});

test("likeness is in words and percent", () => {
  assert.equal(likenessText({ likeness: 0.42, outlier: false }), "Usual for this collection: likeness 42 %");
  assert.equal(likenessText({ likeness: 0.0123, outlier: false }), "Unusual for this collection: likeness 1.2 %");
  assert.equal(likenessText({ likeness: 0.004, outlier: true }), "Nothing here looks like your image");
  assert.equal(likenessText({ likeness: null, outlier: null }), "");
  assert.equal(likenessText({}), "");
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
