import assert from "node:assert/strict";
import { test } from "node:test";

import { BATCH, UsageQueue } from "./static/usage.js";

const event = (image, value, more) => ({ search: "s", event: "relevant", image, value, ...more });

test("events come out in their order, once", () => {
  const queue = new UsageQueue();
  queue.add({ search: "s", event: "shown" });
  queue.add(event("a", 1));
  assert.deepEqual(queue.take(), [{ search: "s", event: "shown", image: "", value: 1 }, event("a", 1)]);
  assert.deepEqual(queue.take(), []);
});

test("a later value replaces the earlier one of the same image, search and kind", () => {
  const queue = new UsageQueue();
  queue.add(event("a", 1));
  queue.add(event("b", 1));
  queue.add(event("a", 0));
  queue.add(event("a", 1, { search: "t" }));
  queue.add(event("a", 1, { event: "compare" }));
  assert.deepEqual(queue.take().map(({ search, event, image, value }) => `${search} ${event} ${image} ${value}`), [
    "s relevant b 1", "s relevant a 0", "t relevant a 1", "s compare a 1",
  ]);
});

test("a batch is limited, and the rest waits", () => {
  const queue = new UsageQueue();
  for (let index = 0; index < BATCH + 3; index += 1) queue.add(event(`i${index}`, 1));
  assert.equal(queue.take().length, BATCH);
  assert.equal(queue.size, 3);
  assert.deepEqual(queue.take().map(({ image }) => image), [`i${BATCH}`, `i${BATCH + 1}`, `i${BATCH + 2}`]);
});
