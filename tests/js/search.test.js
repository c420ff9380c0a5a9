import assert from "node:assert/strict";
import { test } from "node:test";

import { factsOf, titleOf } from "./static/card.js";
import { placeBeside } from "./static/theme.js";
import { kindOf } from "./static/search/search_fields.js";
import { addressFields, defaultSettings, queryOf, searchFields, settingsOf } from "./static/search/search_fields.js";
import { agreementOn, headlineOf, isCounted, shareKeys, sharesOf, shareParts, summaryOf, testedOf, verdictOf } from "./static/search/verdict.js";

const facts = {
  collection: "knees",
  several: true,
  k: 20,
  max_results: 200,
  rerank: "auto",
  anywhere: true,
  rerankers: [{ name: "none", takes_judgements: false }, { name: "eprf", takes_judgements: true }, { name: "diffusion", takes_judgements: false }],
};
const state = (changes = {}) => ({ facts, settings: defaultSettings(facts), rounds: [], query: { image: "a1" }, ...changes });

test("one result a patient, and not the query's study, without a choice", () => {
  assert.deepEqual(searchFields(state()), { k: 20, where: [], rerank: "auto", group_by: "patient", exclude_own_study: true });
  const every = state({ settings: { ...defaultSettings(facts), group: "image" } });
  assert.deepEqual(searchFields(every), { k: 20, where: [], rerank: "auto" });
  const own = state({ settings: { ...defaultSettings(facts), ownStudy: true } });
  assert.equal(searchFields(own).exclude_own_study, undefined);
});

test("words are not re-ranked, and have no study", () => {
  assert.deepEqual(searchFields(state({ query: { text: "effusion" } })), { k: 20, where: [], group_by: "patient" });
});

test("judgements go with a method that takes them", () => {
  const marked = (rerank) => searchFields(state({ rounds: ["x,-y"], settings: { ...defaultSettings(facts), rerank } }));
  assert.deepEqual(marked("eprf").feedback, [{ image_id: "x", relevance: 1 }, { image_id: "y", relevance: -1 }]);
  assert.equal(marked("eprf").rerank, "eprf");
  assert.equal(marked("diffusion").rerank, "auto");
});

test("a region is searched for anywhere where it can be, unless the user wants it cut out", () => {
  const query = { image: "a1", region: [1, 2, 3, 4] };
  const fields = searchFields(state({ query }));
  assert.deepEqual([fields.anywhere, fields.rerank], [true, undefined]);
  assert.equal(searchFields(state({ query: { file: {}, region: [1, 2, 3, 4] } })).rerank, "none");
  assert.equal(searchFields(state({ query, rounds: ["x"] })).anywhere, undefined);
  assert.equal(searchFields(state()).anywhere, undefined);
  const cutOut = { ...defaultSettings(facts), anywhere: false };
  assert.equal(searchFields(state({ query, settings: cutOut })).anywhere, undefined);
  assert.equal(defaultSettings({ ...facts, anywhere: false }).anywhere, false); // no cells are stored
});

test("an address of a region says whether it is cut out, as before", () => {
  const region = "1,2,3,4";
  assert.equal(settingsOf({ image: "a1", region }, facts).anywhere, false);
  assert.equal(settingsOf({ image: "a1", region, anywhere: "1" }, facts).anywhere, true);
  assert.equal(settingsOf({ image: "a1" }, facts).anywhere, true); // of a region that is drawn next
});

test("an address has what differs from the defaults, and gives it back", () => {
  const settings = { ...defaultSettings(facts), k: 7, rerank: "eprf", parameters: { P: 3 }, where: ["a=b", "c>=1"], group: "study", ownStudy: true, view: "both" };
  const query = { image: "a1", region: [1, 2, 3, 4] };
  const fields = addressFields(state({ settings, query, rounds: ["x,-y"] }), query);
  assert.equal(fields.said, "x,-y");
  const params = Object.fromEntries(Object.entries(fields).filter(([, value]) => value).map(([name, value]) => [name, String(value)]));
  assert.deepEqual(settingsOf(params, facts), settings);
  assert.deepEqual(queryOf(params), query);
  const plain = addressFields(state(), { image: "a1" });
  assert.deepEqual(Object.entries(plain).filter(([, value]) => value), [["collection", "knees"], ["image", "a1"]]);
});

test("the values of a paper are a parameter in an address", () => {
  const settings = { ...defaultSettings(facts), rerank: "eprf", parameters: { preset: "paper", P: 3 } };
  const { rerank, parameters } = addressFields(state({ settings }), { image: "a1" });
  assert.equal(parameters, "preset=paper;P=3");
  assert.deepEqual(settingsOf({ rerank, parameters }, facts), settings);
});

test("addresses by hand stay within bounds", () => {
  assert.equal(settingsOf({ k: "100000" }, facts).k, 200);
  assert.equal(settingsOf({ k: "many" }, facts).k, 20);
  assert.equal(settingsOf({ rerank: "nobody", view: "sideways" }, facts).rerank, "auto");
});

test("the box takes ids, links, UIDs and words", () => {
  const here = "https://cbir.example.org";
  const id = "9f4c1d7a25e860b3c4a1f2d6e7380b95";
  assert.deepEqual(kindOf(id.toUpperCase(), here), { kind: "image", collection: "", id });
  assert.equal(kindOf(`${here}/?image=${id}&k=3`, here).kind, "page");
  assert.deepEqual(kindOf(`${here}/v1/collections/my%20knees/images/${id}/thumbnail`, here), { kind: "image", collection: "my knees", id });
  assert.deepEqual(kindOf(`${here}/v1/images/${id}?collection=ct`, here), { kind: "image", collection: "ct", id });
  assert.deepEqual(kindOf(`${here}/cases/12`, here), { kind: "other", address: `${here}/cases/12` });
  assert.deepEqual(kindOf(`${here}//elsewhere.org/a`, here), { kind: "other", address: `${here}//elsewhere.org/a` });
  assert.equal(kindOf(`${here}/v1/images/%E0%A4%A`, here).id, "%E0%A4%A");
  assert.deepEqual(kindOf("https://elsewhere.org/a.png", here), { kind: "site", host: "elsewhere.org" });
  assert.equal(kindOf("1.2.840.113619.2.55.3", here).kind, "uid");
  assert.equal(kindOf("effusion on the left", here).kind, "words");
});

test("a card is named by its finding, else by what is shown", () => {
  const card = { finding: "Meningioma", modality: "MR", body_part: "HEAD", sex: "F", age: "54", year: "2021" };
  assert.equal(titleOf({ card, image_id: "a" }), "Meningioma");
  assert.deepEqual(factsOf({ card }), ["MR head", "F 54", "2021"]);
  assert.equal(titleOf({ card: { ...card, finding: null }, image_id: "a" }), "MR head");
  assert.deepEqual(factsOf({ card: { ...card, finding: null } }), ["F 54", "2021"]);
  assert.equal(titleOf({ card: null, labels: {}, image_id: "0123456789" }), "image 01234567");
});

test("the verdict is one line", () => {
  assert.equal(verdictOf({ likeness: 0.82, outlier: false }).title, "Like the images here: 8 in 10 match no other one better");
  assert.equal(verdictOf({ likeness: 1, outlier: false }).title, "Like the images here: 9 in 10 match no other one better");
  assert.deepEqual(verdictOf({ likeness: 0.12, outlier: false }), { level: "unusual", title: "Unlike most images here: 88 in 100 match another one better" });
  assert.deepEqual(verdictOf({ likeness: 0.002, outlier: false }), { level: "poor", title: "Poor match: 99 in 100 images here match another one better" });
  assert.equal(verdictOf({ likeness: 0.004, outlier: true }).level, "outlier");
  assert.equal(verdictOf({ likeness: null, outlier: null }), null);
});

test("how often such an agreement is right is said with its interval, where it is known", () => {
  const agreement = { key: "label", value: "CT", agreeing: 8, answers: 10, right: 0.806818, low: 0.711, high: 0.876, images: 86 }; // 70 of 86 by Laplace's rule
  assert.equal(testedOf(agreement).text, "Tested on this collection: with agreement like this, the label was right for 70 of 86 images (95 % CI 71 to 88 %).");
  assert.equal(testedOf(agreement).short, "Tested: right for 70 of 86 images.");
  assert.match(testedOf({ ...agreement, right: 54 / 55, images: 53, low: 0.932, high: 1 }).text, / 53 of 53 .* \(95 % CI 93 to 100 %\)/);
  assert.equal(testedOf({ ...agreement, agreeing: 5 }), null);
  assert.equal(testedOf({ ...agreement, right: null, low: null, high: null }), null);
  assert.equal(testedOf(undefined), null);
});

test("the finding of the nearest results is the headline, where most of them have it", () => {
  const hits = (...findings) => findings.map((label, index) => ({ image_id: `${index}`, labels: { label }, card: null }));
  const headline = (results) => headlineOf({ results })?.text;
  assert.equal(headline(hits("a", "a", "a", "b")), "3 of the 4 nearest are labelled “a”");
  assert.equal(headline(hits("a", "a", "b")), "No clear answer: 2 × a, 1 × b of the 3 nearest"); // fewer than seven in ten
  const rightIn = (count, images, low) => headlineOf({ results: hits("a", "a", "a", "b"), agreement: { right: (count + 1) / (images + 2), images, low } });
  const wrong = { text: "No clear answer: 3 × a, 1 × b of the 4 nearest", caution: "Such agreement was wrong too often here for a clear answer.", hasTest: true };
  assert.deepEqual(rightIn(52, 84, 0.51), wrong); // as rarely as the next, whatever the interval
  assert.deepEqual(rightIn(17, 27, 0.44), wrong);
  assert.equal(rightIn(21, 30, 0.52).text, "3 of the 4 nearest are labelled “a”");
  assert.equal(headlineOf({ results: hits("a", "a", "b") }).rule, "A label is named where 3 of the 3 nearest have it.");
  assert.equal(sharesOf(hits("b", "a", "a", "c", "c", "d", "d")), "2 × a, 2 × c, 2 × d, …");
  assert.equal(sharesOf(hits("b", "a", "a")), "2 × a, 1 × b");
  const nearest = hits(..."aaaaaaaaab", ..."bbbbbbbbbbb");
  assert.equal(headlineOf({ results: nearest }).rule, "Among all results “b” is more frequent.");
  assert.equal(headline(nearest), "No clear answer: 9 × a, 1 × b of the 10 nearest");
  assert.equal(headline(hits(..."baaaaaaaab", ..."bbbbbb")), "8 of the 10 nearest are labelled “a”"); // as many as of b in all
  assert.equal(headline(nearest.slice(0, 15)), "9 of the 10 nearest are labelled “a”");
  assert.equal(headlineOf({ results: nearest.slice(0, 15) }).caution, "Not a probability for this patient.");
  assert.equal(headlineOf({ results: hits("a", "a"), refined: true }).text, "Refined by your marks");
  assert.deepEqual(headlineOf({ results: hits("a", "a"), where: ["site=A"] }), { text: "", caution: "The results are what your filter lets through: their labels are no evidence." });
  assert.equal(headline(hits(..."aabbccd")), "No clear answer: 2 × a, 2 × b, 2 × c, … of the 7 nearest");
  assert.equal(headline(hits("a")), undefined);
  const sexes = ["F", "F"].map((sex, index) => ({ image_id: `${index}`, labels: { sex }, card: null }));
  assert.equal(headline(sexes), undefined);
  assert.equal(headline([...hits("a"), ...sexes.map((hit) => ({ ...hit, labels: {} }))]), undefined);
  assert.equal(headline([{ image_id: "a", labels: {}, card: null }, { image_id: "b", labels: {}, card: null }]), undefined);
});

test("copies of a picture and images of a patient have one vote", () => {
  const hits = (...all) => all.map(([label, distance, patient = null], index) => ({ image_id: `${index}`, labels: { label }, card: null, distance, patient }));
  const copied = hits(["a", 0.2], ["a", 0.2], ["a", 0.2 + 1e-9], ["b", 0.3], ["a", 0.4]);
  assert.equal(headlineOf({ results: copied }).text, "No clear answer: 2 × a, 1 × b of the 3 nearest");
  assert.equal(headlineOf({ results: hits(["a", 0.2], ["a", 0.21], ["a", 0.22], ["b", 0.3]) }).text, "3 of the 4 nearest are labelled “a”");
  assert.equal(headlineOf({ results: hits(["a", 0.1, "p"], ["a", 0.2, "p"], ["a", 0.25, "p"], ["b", 0.3, "q"]) }).text, "No clear answer: 1 × a, 1 × b of the 2 nearest");
  const own = hits(["a", 0.1, "p"], ["b", 0.2], ["b", 0.3], ["b", 0.4]);
  assert.equal(headlineOf({ results: own, patient: "p" }).text, "3 of the 3 nearest are labelled “b”"); // the query's patient has no say
  assert.equal(isCounted({ results: own, query: { patient: "p" } }), false);
  assert.equal(isCounted({ results: own, query: { patient: null } }), true);
  assert.equal(headlineOf({ results: hits(["a", 0], ["a", 0], ["a", 0]) }), null); // one picture agrees with itself
  const twelve = hits(...Array.from({ length: 12 }, (_, index) => ["a", index ? index / 10 : 0.1]));
  assert.equal(headlineOf({ results: twelve }).text, "10 of the 10 nearest are labelled “a”"); // others take the places of copies
  assert.equal(isCounted({ results: copied }), false); // counted without copies
  assert.equal(isCounted({ results: copied.slice(2) }), true);
  assert.equal(isCounted({ results: hits(["a", 0.5], ["a", 0.50003], ["b", 0.6]) }), true); // as far by chance
  assert.equal(isCounted({ results: copied.slice(2), query: { likeness: 0.03 } }), false); // unlike those that were counted
  assert.equal(isCounted({ results: copied.slice(2), query: { likeness: null } }), true);
});

test("a modality is no finding", () => {
  const hits = (...all) => all.map((labels, index) => ({ image_id: `${index}`, labels, card: { modality: labels.modality } }));
  assert.equal(headlineOf({ results: hits({ modality: "CXR" }, { modality: "CXR" }, { modality: "CT" }) }), null);
  assert.equal(headlineOf({ results: hits({ label: "CXR", modality: "CR" }, { label: "CXR", modality: "CR" }, { label: "Hand" }) }), null);
  assert.equal(headlineOf({ results: hits({ modality: "CXR", view: "PA" }, { modality: "CXR", view: "PA" }, { modality: "CXR", view: "PA" }, { modality: "CXR" }) }).text, "3 of the 4 nearest are labelled “PA”");
});

test("what is said of an answer has the parts that are shown", () => {
  const hits = "aaab".split("").map((label, index) => ({ image_id: `${index}`, labels: { label }, card: null, distance: index }));
  const agreement = [{ key: "label", value: "a", agreeing: 3, answers: 4, right: 20 / 22, low: 0.75, high: 0.99, images: 20 }];
  const said = (query, shownQuery = {}) => summaryOf({ answer: { results: hits, agreement, query }, settings: { where: [] }, fields: {}, shownQuery });
  const usual = said({ likeness: 0.5 });
  const unclear = summaryOf({ answer: { results: hits.slice(1), agreement, query: { likeness: 0.5 } }, settings: { where: [] }, fields: {}, shownQuery: {} });
  assert.deepEqual([unclear.title, unclear.text], ["No clear answer: 2 × a, 1 × b of the 3 nearest", "A label is named where 3 of the 3 nearest have it."]);
  assert.deepEqual([unclear.caution, unclear.tested], [undefined, null]);
  assert.deepEqual([usual.title, usual.text, usual.tested.short], ["3 of the 4 nearest are labelled “a”", undefined, "Tested: right for 19 of 20 images."]);
  const wrong = { ...agreement[0], right: 10 / 22 };
  const often = (shownQuery) => summaryOf({ answer: { results: hits, agreement: [wrong], query: { likeness: 0.5 } }, settings: { where: [] }, fields: {}, shownQuery });
  assert.match(often({}).words, /^No clear answer: .* right for 9 of 20 images .* wrong too often here/);
  const poor = said({ likeness: 0.01 });
  assert.deepEqual([poor.level, poor.title.slice(0, 10), poor.text], ["poor", "Poor match", usual.title]);
  assert.match(usual.words, /^3 of the 4 nearest are labelled “a”\. Tested on this collection: .* right for 19 of 20 images .* Not a probability for this patient\.$/);
  const outlier = said({ likeness: 0.001, outlier: true });
  assert.deepEqual([outlier.title, outlier.caution, outlier.tested], ["Nothing here looks like this", undefined, null]);
  assert.equal(said({ likeness: 0.1 }).words, usual.words); // which the agreement was counted for
  const part = (likeness) => said({ likeness }, { region: [1, 2, 3, 4] });
  assert.deepEqual([part(0.5).words, part(0.1).words, part(null).words], ["", "", ""]); // nothing was counted of parts
  assert.deepEqual([part(0.01).title, part(0.01).level, part(0.01).tested], ["Nothing like this part was found", "outlier", null]);
  const changed = (changes) => summaryOf({ answer: { results: hits, agreement, query: {} }, settings: { where: [] }, fields: {}, shownQuery: { region: [1, 2, 3, 4] }, ...changes });
  assert.match(changed({ fields: { feedback: [{}] } }).words, /^Refined by your marks\. .* no evidence\.$/);
  assert.match(changed({ settings: { where: ["label=a"] } }).words, /^The results are what your filter .* no evidence\.$/);
  const filtered = summaryOf({ answer: { results: hits, agreement, query: { likeness: 0.1 } }, settings: { where: ["label=a"] }, fields: {}, shownQuery: {} });
  assert.deepEqual([filtered.title.slice(0, 6), filtered.tested], ["Unlike", null]);
  assert.match(filtered.words, /no evidence\.$/);
});

test("agreement is on the finding, not on what all images here have", () => {
  const results = [{ image_id: "a", labels: { modality: "MR" }, card: { finding: "Glioma" } }];
  const agreement = [{ key: "modality", value: "MR" }, { key: "label", value: "Glioma" }];
  assert.equal(agreementOn({ results, agreement }), agreement[1]);
  assert.equal(agreementOn({ results: [{ ...results[0], card: null }], agreement }), agreement[0]);
  assert.equal(agreementOn({ results: [], agreement: [] }), undefined);
  const tied = "baaaaaaaabbbbbbb".split("").map((label, index) => ({ image_id: `${index}`, labels: { label }, card: null }));
  assert.equal(agreementOn({ results: tied, agreement: [{ key: "label", value: "a" }] })?.value, "a"); // as the headline, b is as frequent in all
});

test("shares are of findings where cards have some", () => {
  const hit = (finding, label) => ({ image_id: "a", labels: { label }, card: { finding } });
  const results = [hit("Glioma", "x"), hit("Glioma", "y"), hit(null, "y")];
  assert.deepEqual(shareKeys(results), ["", "label"]);
  assert.deepEqual(shareParts(results, "").map(({ name, count }) => [name, count]), [["Glioma", 2], ["without a label", 1]]);
  assert.deepEqual(shareParts(results, "label").map(({ name, count }) => [name, count]), [["y", 2], ["x", 1]]);
});

test("menus stay on the screen", () => {
  const window = { width: 400, height: 300 };
  const menu = { width: 200, height: 120 };
  assert.deepEqual(placeBeside({ left: 10, right: 50, top: 10, bottom: 40 }, menu, window), { left: 10, top: 46 });
  assert.deepEqual(placeBeside({ left: 350, right: 390, top: 250, bottom: 280 }, menu, window), { left: 190, top: 124 });
  assert.deepEqual(placeBeside({ left: 100, right: 120, top: 10, bottom: 40 }, { width: 390, height: 290 }, window), { left: 6, top: 6 });
});
