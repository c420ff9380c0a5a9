import assert from "node:assert/strict";
import { test } from "node:test";

import { duration, isActive, madeBy, requestTable, tokenRequest } from "./static/admin/sections.js";
import { size } from "./static/problems.js";

test("sizes have the largest unit that makes them at least one", () => {
  assert.deepEqual([0, 1, 999, 1536, 20 * 2 ** 20, 2e16].map(size), ["0 bytes", "1 byte", "999 bytes", "1.5 KiB", "20 MiB", "18,190 TiB"]);
});

test("durations have whole units", () => {
  assert.deepEqual([-5, 0, 59.9, 60, 7199, 200_000].map(duration), ["0 seconds", "0 seconds", "59 seconds", "1 minute", "1 hour", "2 days"]);
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
  assert.deepEqual(columns, ["search, eprf", "delete", "refused"]);
  assert.deepEqual(rows, [["2026-03-02", 5, 0, 100], ["2026-03-01", 2, 1, 0]]);
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
  const form = new FormData();
  for (const [name, value] of [["name", " ward "], ["scope", "search"], ["expires", " "], ["where", "site=A, , modality=CT"]]) form.set(name, value);
  const request = { name: "ward", scopes: ["search"], expires: null, collections: [], where: ["site=A", "modality=CT"] };
  assert.deepEqual(tokenRequest(form), request);
  form.set("expires", "4w");
  assert.equal(tokenRequest(form).expires, "4w");
});
