import assert from "node:assert/strict";
import { test } from "node:test";

import { leftOf, membersOf } from "./static/search/run.js";

const hit = (image_id, key, more, rank = 3) => ({ image_id, rank, group: { key, more } });

test("as many more are offered as are not shown yet, and at most 100 of a group", () => {
  assert.equal(leftOf(hit("a", "P", 7)), 7);
  assert.equal(leftOf(hit("a", "P", 7), { members: Array(7).fill({}), left: 0 }), 0);
  assert.equal(leftOf(hit("a", "P", 120)), 99);
  assert.equal(leftOf({ group: null }), 0);
  assert.equal(leftOf(hit("a", "P", 7), { members: [], left: 0 }), 0); // a larger answer had none of them
});

test("members are the other results of the group, ranked below its best, no more than were offered", () => {
  const results = [hit("x", "Q", 0, 1), hit("a", "P", 5, 2), hit("b", "P", 5, 3), hit("c", "P", 5, 4)];
  const members = membersOf(hit("a", "P", 2), results);
  assert.deepEqual(members.map(({ image_id, rank }) => [image_id, rank]), [["b", "3.1"], ["c", "3.2"]]);
  assert.ok(members.every((member) => member.group === null));
  assert.equal(membersOf(hit("a", "P", 1), results).length, 1);
  assert.deepEqual(membersOf(hit("a", "P", 7), []), []);
});
