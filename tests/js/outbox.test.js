// Answers of annotators stay in the browser until the service has stored them.
import assert from "node:assert/strict";
import { test } from "node:test";

const kept = new Map();
globalThis.localStorage = new Proxy(
  { getItem: (key) => kept.get(key), setItem: (key, text) => kept.set(key, text), removeItem: (key) => kept.delete(key) },
  { ownKeys: () => [...kept.keys()], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }) },
);
globalThis.document = {
  getElementById: () => ({ dataset: { facts: '{"id": "1f", "name": "knees"}' } }),
  querySelector: () => null,
  createComment() {},
  createTreeWalker() {},
  documentElement: {},
};
const { Outbox } = await import("./static/annotate/item_queue.js");

const PREFIX = "judged:1f:Ada:";
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Open an outbox while the service answers with these statuses, 0 for none, and then with 200; what was asked and shown. */
function opened(...statuses) {
  const seen = { addresses: [], errors: [], stored: [] };
  globalThis.fetch = async (address) => {
    seen.addresses.push(address);
    const status = statuses.shift() ?? 200;
    if (!status) throw new TypeError("no response");
    return new Response(status === 200 ? '{"progress": {}}' : '{"detail": "no"}', { status });
  };
  const outbox = new Outbox(PREFIX, { onResponse: (answer) => seen.stored.push(answer), onError: (error) => error && seen.errors.push(error), onChange() {} });
  return { outbox, ...seen };
}

test("an answer is sent again until it is stored, to the study of the page", async () => {
  const { outbox, addresses, stored } = opened(0, 503);
  outbox.add("/annotate/judgements", { name: "a" });
  assert.equal(kept.size, 1);
  await wait(1500); // two pauses
  assert.deepEqual(addresses, Array(3).fill("/annotate/judgements?study=knees&study_id=1f"));
  assert.deepEqual([stored.length, kept.size], [1, 0]);
});

for (const status of [401, 403]) {
  test(`an answer that is answered with ${status} stays for the next visit`, async () => {
    const { outbox, errors } = opened(status);
    outbox.add("/annotate/judgements", { name: "b" });
    await wait(50);
    assert.deepEqual([errors.length, kept.size], [1, 1]);
    const { stored } = opened();
    await wait(50);
    assert.deepEqual([stored.length, kept.size], [1, 0]);
  });
}

test("an answer that another page answers, as a proxy does when its login has ended, is sent again", async () => {
  const { outbox, stored } = opened();
  const { fetch } = globalThis;
  const pages = [new Response("<!doctype html>"), new Response('{"progress"')];
  globalThis.fetch = async (address) => pages.shift() ?? fetch(address);
  for (const name of ["x", "y"]) outbox.add("/annotate/judgements", { name });
  await wait(50);
  assert.equal(kept.size, 2);
  await wait(1500);
  assert.deepEqual([stored.length, kept.size], [2, 0]);
});

test("an answer that would be refused again is dropped, and said", async () => {
  const { outbox, errors } = opened(422);
  outbox.add("/annotate/judgements", { name: "c" });
  await wait(50);
  assert.deepEqual([errors.length, kept.size], [1, 0]);
});

test("answers are sent in their order", async () => {
  const sent = [];
  const { outbox } = opened(0);
  const { fetch } = globalThis;
  globalThis.fetch = (address, options) => (sent.push(JSON.parse(options.body).name), fetch(address, options));
  for (const name of ["d", "e", "f"]) outbox.add("/annotate/grades", { name });
  await wait(700);
  assert.deepEqual(sent.filter((name, index) => sent.indexOf(name) === index), ["d", "e", "f"]);
  assert.equal(kept.size, 0);
});
