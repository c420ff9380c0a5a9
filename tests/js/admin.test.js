import assert from "node:assert/strict";
import { test } from "node:test";

import { durationOf, isActive, madeBy, requestTable, sizeOf, tokenRequest } from "./static/admin/figures.js";

test("sizes have the largest unit that makes them at least one", () => {
  assert.deepEqual(sizeOf(0), { value: 0, unit: "byte" });
  assert.deepEqual(sizeOf(999), { value: 999, unit: "byte" });
  assert.deepEqual(sizeOf(1500), { value: 1.5, unit: "kilobyte" });
  assert.deepEqual(sizeOf(2e16), { value: 20_000, unit: "terabyte" });
});

test("durations have whole units", () => {
  const spans = [[0, 0, "second"], [59.9, 59, "second"], [60, 1, "minute"], [7199, 1, "hour"], [200_000, 2, "day"]];
  for (const [seconds, value, unit] of spans) assert.deepEqual(durationOf(seconds), { value, unit });
});

test("requests become a row a day and a column an action", () => {
  const row = (day, action, method, outcome, count) => ({ day, action, method, outcome, count });
  const { columns, rows } = requestTable([
    row("2026-03-01", "delete", "", "done", 1),
    row("2026-03-02", "search", "eprf", "done", 5),
    row("2026-03-02", "search", "eprf", "refused", 90),
    row("2026-03-02", "list", "", "refused", 10),
    row("2026-03-01", "search", "eprf", "done", 2),
  ]);
  assert.deepEqual(columns, [
    { action: "search", method: "eprf", outcome: "done" },
    { action: "delete", method: "", outcome: "done" },
    { action: "", method: "", outcome: "refused" },
  ]);
  assert.deepEqual(rows, [{ day: "2026-03-02", counts: [5, 0, 100] }, { day: "2026-03-01", counts: [2, 1, 0] }]);
  assert.deepEqual(requestTable([]), { columns: [], rows: [] });
});

test("what a token has made includes what those have made", () => {
  const made = [["e", "user token a"], ["d", "token c"], ["c", "token a"], ["b", null], ["a", null]];
  const tokens = made.map(([token_id, made_by]) => ({ token_id, made_by }));
  assert.deepEqual(madeBy(tokens, "a").map(({ token_id }) => token_id), ["c", "d"]);
  assert.deepEqual(madeBy(tokens, "d"), []);
});

test("a job is active until it has ended", () => {
  const states = ["waiting", "running", "done", "cancelled", "failed"];
  assert.deepEqual(states.filter((state) => isActive({ state })), ["waiting", "running"]);
});

test("a form becomes a request for a token", () => {
  const form = { name: " ward ", scopes: ["search"], expires: " ", collections: [], where: "site=A, , modality=CT" };
  const request = { name: "ward", scopes: ["search"], expires: null, collections: [], where: ["site=A", "modality=CT"] };
  assert.deepEqual(tokenRequest(form), request);
  assert.equal(tokenRequest({ ...form, expires: "4w" }).expires, "4w");
});
