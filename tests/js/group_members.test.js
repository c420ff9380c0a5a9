import assert from "node:assert/strict";
import { test } from "node:test";

import { membersOf, nextSize } from "./static/search/run.js";

const hit = (image_id, key, more, rank = 3) => ({ image_id, rank, group: { key, more } });

test("the next step shows at most 24 more, and at most 100 of a group", () => {
  assert.equal(nextSize(hit("a", "P", 7)), 8);
  assert.equal(nextSize(hit("a", "P", 90)), 25);
  assert.equal(nextSize({ ...hit("a", "P", 90), members: Array(24).fill({}) }), 49);
  assert.equal(nextSize({ ...hit("a", "P", 90), members: Array(96).fill({}) }), 100);
});

test("members are the other results of the group, ranked below its best", () => {
  const results = [hit("x", "Q", 0, 1), hit("a", "P", 5, 2), hit("b", "P", 5, 3), hit("c", "P", 5, 4)];
  const { members, group } = membersOf(hit("a", "P", 7), results);
  assert.deepEqual(members.map(({ image_id, rank }) => [image_id, rank]), [["b", "3.1"], ["c", "3.2"]]);
  assert.equal(group.more, 5);
  assert.ok(members.every((member) => member.group === null));
});

test("nothing more is offered when the group is not found or an answer is full", () => {
  assert.deepEqual(membersOf(hit("a", "P", 7), []), { members: [], group: { key: "P", more: 0 } });
  const full = Array.from({ length: 100 }, (_, index) => hit(String(index), "P", 9));
  assert.equal(membersOf(hit("0", "P", 50), full).group.more, 0);
});
