import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.location = new URL("http://cbir.test/?case=c1");
globalThis.history = { state: null, replaceState: (entry, _, address) => Object.assign(history, { state: entry, address }) };
const { openCase } = await import("./static/saved_search.js");
const { openAddress } = await import("./static/search/run.js");
const { state } = await import("./static/page_state.js");

test("a case of words is searched with again, with its marks", async () => {
  const search = { text: "effusion", k: 20, rerank: null, parameters: {}, where: [] };
  const marks = [{ image_id: "a", relevance: 1 }];
  globalThis.fetch = async () => new Response(JSON.stringify({ id: "c1", collection: "knees", search, rounds: [], marks }));
  await openCase();
  globalThis.location = new URL(history.address, location);
  globalThis.fetch = async () => new Response("{}", { status: 422 });
  state.facts = { collection: "knees", several: false, k: 20, max_results: 200, rerankers: [] };
  await openAddress();
  assert.deepEqual([state.query, [...state.marks]], [{ text: "effusion" }, [["a", 1]]]);
});
