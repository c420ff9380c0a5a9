import assert from "node:assert/strict";
import { test } from "node:test";

import { toCsv, toJson, toUids } from "./static/search/answer_downloads.js";
import { renderSheet } from "./static/search/answer_downloads.js";

const hit = (rank, labels = {}, dicom = null) => ({ rank, image_id: `id${rank}`, score: 1, distance: 0.5, patient: null, labels, dicom });
const place = { study: "1.2", series: "1.2.3", instance: "1.2.3.4", frame: 2 };

test("a row of csv has the facts and a column for each label", () => {
  const text = toCsv([hit(1, { organ: "hand, left", rank: "x" }), hit(2, { note: '=1+1 "a"', grade: "-1" }, place)]);
  assert.equal(
    text,
    "rank,image_id,score,distance,patient,study,series,instance,frame,organ,label:rank,note,grade\r\n" +
      '1,id1,1,0.5,,,,,,"hand, left",x,,\r\n' +
      `2,id2,1,0.5,,1.2,1.2.3,1.2.3.4,2,,,"'=1+1 ""a""",-1\r\n`,
  );
});

test("a formula after ; or a tab gets an apostrophe, a number does not", () => {
  const row = toCsv([hit(1, { a: "x;=1+1", b: "x\t@A1", c: "x;-1", d: 'x;"=2"' })]).split("\r\n")[1];
  assert.equal(row, `1,id1,1,0.5,,,,,,x;'=1+1,x\t'@A1,x;-1,"x;'""=2"""`);
});

test("no results are a row of titles", () => {
  assert.equal(toCsv([]).split("\r\n").length, 2);
});

test("JSON is the answer with the results that are shown", () => {
  const answer = { query: { format: "png" }, results: [] };
  const read = JSON.parse(toJson(answer, [hit(1)]));
  assert.deepEqual(read, { query: { format: "png" }, results: [hit(1)] });
});

test("each instance is listed once", () => {
  const text = toUids([hit(1, {}, place), hit(2), hit(3, {}, { ...place, frame: 3 })]);
  assert.equal(text, "StudyInstanceUID,SeriesInstanceUID,SOPInstanceUID\r\n1.2,1.2.3,1.2.3.4\r\n");
});

test("a sheet has the pictures, and no markup from labels", () => {
  const query = { caption: "<b>", data: "data:image/jpeg;base64,AA" };
  const sheet = renderSheet({ note: "none", query, results: [hit(1, { label: "<script>" }), hit(2)], pictures: ["data:x", null] });
  assert.ok(!sheet.includes("<script>") && !sheet.includes("<b><"));
  assert.equal(sheet.match(/<img /g).length, 2);
  assert.equal(sheet.match(/class="none"/g).length, 1);
});

test("words have no picture", () => {
  const sheet = renderSheet({ note: "none", query: { caption: "Words", data: null }, results: [], pictures: [] });
  assert.ok(!sheet.includes("<img") && !sheet.includes('class="none"'));
});
