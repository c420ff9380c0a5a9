import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

const { callParts, state } = await import("./static/page_state.js");
let flush = null;
globalThis.addEventListener = (name, act) => (flush = act);
document.addEventListener = () => {};
let sent = [];
globalThis.fetch = async (address, { body }) => sent.push(JSON.parse(body).events);
await import("./static/usage.js");

/** An answer of a logged search is on the page. */
function show(search) {
  const answer = {};
  callParts("receive", answer, { headers: new Map([["Usage-Search", search]]) });
  callParts("answer", answer);
}

const texts = (events) => events.map(({ search, event, image, value }) => `${search} ${event} ${image} ${value}`);

beforeEach(() => {
  Object.assign(state, { facts: { parts: { usage: { log: true } } }, settings: { view: "after" } });
  callParts("install");
  callParts("answer", null);
  sent = [];
});

test("events are sent in their order, once", () => {
  show("s");
  callParts("judge", "a", 1);
  flush();
  flush();
  assert.deepEqual(sent.map(texts), [["s shown  1", "s relevant a 1"]]);
});

test("a later value replaces the earlier one of the same image, search and kind", () => {
  show("s");
  callParts("judge", "a", 1);
  callParts("judge", "b", 1);
  callParts("judge", "a", 0);
  callParts("openResult", "compare", { image_id: "a" });
  show("t");
  callParts("judge", "a", 1);
  flush();
  assert.deepEqual(texts(sent[0]), ["s shown  1", "s relevant b 1", "s relevant a 0", "s compare a 1", "t shown  1", "t relevant a 1"]);
});

test("many events are sent in requests of fifty", () => {
  show("s");
  for (let index = 0; index < 52; index += 1) callParts("judge", `i${index}`, 1);
  flush();
  assert.deepEqual(sent.map((events) => events.length), [50, 3]);
  assert.equal(sent[1].at(-1).image, "i51");
});

test("nothing is sent of an answer that is not logged", () => {
  callParts("answer", {});
  callParts("judge", "a", 1);
  flush();
  assert.deepEqual(sent, []);
});
