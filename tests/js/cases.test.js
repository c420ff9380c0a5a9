import assert from "node:assert/strict";
import { test } from "node:test";

import { addressParams, historyEntry, toContent } from "./static/saved_search.js";
import { searchAddress } from "./static/api.js";
import { exportAddress, savedFacts } from "./static/saved/own.js";

const params = { k: 20, rerank: "diffusion", parameters: { P: 9 }, where: ["modality=CT", "grade>=2"], feedback: [] };
const hit = { rank: 1, image_id: "a", score: 0.9, distance: 0.5, labels: { modality: "CT" }, patient: "key" };
const answer = { rerank: { method: "diffusion" }, results: [hit] };
const judged = { rounds: ["a", "a,-b"], marks: "a,-b,c" };

test("the content of a case has ids and figures of results, not labels and patients", () => {
  const content = toContent({ query: { image: "q", region: [1, 2, 3, 4] }, params, answer, ...judged });
  assert.deepEqual(content.search, { k: 20, rerank: "diffusion", parameters: { P: 9 }, where: params.where, image_id: "q", region: [1, 2, 3, 4] });
  assert.deepEqual(content.answers, [{ rank: 1, image_id: "a", score: 0.9, distance: 0.5 }]);
  assert.deepEqual(content.rounds[1], [{ image_id: "a", relevance: 1 }, { image_id: "b", relevance: -1 }]);
  assert.equal(content.marks.length, 3);
  assert.equal(content.method, "diffusion");
});

test("a case keeps that its query was unlike all images", () => {
  const { outlier } = toContent({ query: { image: "q" }, params, answer: { ...answer, query: { outlier: true } }, ...judged });
  assert.equal(outlier, true);
  assert.equal("outlier" in toContent({ query: { image: "q" }, params, answer: { ...answer, query: { outlier: false } }, ...judged }), false);
});

test("a case keeps what was said of its results", () => {
  assert.equal(toContent({ query: { image: "q" }, params, answer, ...judged, verdict: "No clear answer." }).verdict, "No clear answer.");
  assert.equal("verdict" in toContent({ query: { image: "q" }, params, answer, ...judged, verdict: "" }), false);
});

test("an uploaded query has its frame and window, an image of the collection has none", () => {
  const file = { file: {}, frame: 3, window: [40, 400] };
  const { search } = toContent({ query: file, params: { ...params, group_by: "patient" }, answer, rounds: [], marks: "" });
  assert.deepEqual([search.frame, search.window, search.group_by], [3, [40, 400], "patient"]);
  assert.equal("image_id" in search, false);
  const first = toContent({ query: { file: {}, frame: 1 }, params, answer, rounds: [], marks: "" });
  assert.equal("frame" in first.search, false);
});

test("a case becomes the address and the history entry that it was saved from", () => {
  const content = toContent({ query: { image: "q", region: [1, 2, 3, 4] }, params, answer, ...judged });
  const saved = { ...content, collection: "knees" };
  assert.deepEqual(addressParams(saved), {
    collection: "knees", image: "q", region: "1,2,3,4", rerank: "diffusion", parameters: "P=9", k: 20,
    where: "modality=CT;grade>=2", group_by: "image", own: "", said: "a,-b",
  });
  assert.deepEqual(historyEntry(saved), judged);
});

test("a search that leaves out the own study, or has it, is opened as such", () => {
  const opened = (changes) => {
    const { search } = toContent({ query: { image: "q" }, params: { ...params, ...changes }, answer, ...judged });
    return addressParams({ collection: "c", search, rounds: [] });
  };
  assert.equal(opened({ group_by: "patient", exclude_own_study: true }).own, "");
  assert.equal(opened({ group_by: "patient" }).own, "1");
  assert.equal(opened({ group_by: "site" }).own, ""); // a choice that the search did not have
});

test("the region of an uploaded query is not part of the address, and a case without rounds has no judgements", () => {
  const search = { k: 5, rerank: null, parameters: {}, where: [], region: [1, 2, 3, 4] };
  const { image, region, rerank, said } = addressParams({ collection: "c", search, rounds: [] });
  assert.deepEqual([image, region, rerank, said], ["", "", "", ""]);
});

test("graded judgements count by their direction", () => {
  const marks = [{ image_id: "a", relevance: 0.4 }, { image_id: "b", relevance: -0.1 }, { image_id: "c", relevance: 0 }];
  assert.equal(historyEntry({ rounds: [], marks }).marks, "a,-b");
});

test("a teaching file without labels or results is asked for as such", () => {
  assert.equal(exportAddress("x/y", "pdf", [], []), "/v1/cases/x%2Fy/export?format=pdf&label_keys=&ranks=0");
  assert.equal(exportAddress("x", "html", ["a&b"], ["1", "3"]), "/v1/cases/x/export?format=html&label_keys=a%26b&ranks=1&ranks=3");
});

test("the facts of a case name the owner of those of others", () => {
  const saved = { collection: "knees", created: "2026-03-02T09:30:00+00:00", mine: false, owner: "user alice", shared: true };
  assert.equal(savedFacts(saved, true), "knees · 2026-03-02 · user alice · shared");
  assert.equal(savedFacts({ ...saved, mine: true, shared: false }, false), "2026-03-02 · private");
  assert.equal(savedFacts({ ...saved, mine: true, owner: "service", shared: false }, false), "2026-03-02");
});

test("a search with an image names its collection only if there are several", () => {
  assert.equal(searchAddress("a b", ""), "/?image=a+b");
  assert.equal(searchAddress("a", "knees & hips"), "/?image=a&collection=knees+%26+hips");
});
