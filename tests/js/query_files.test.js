import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";

import { dicomHeader } from "./static/dicom_header.js";
import { fileKind } from "./static/file_kind.js";
import { Problem, size, withFileNames } from "./static/problems.js";
import { queryOfFiles } from "./static/query_files.js";
import { readFiles } from "./static/query_files.js";
import { orderSlices } from "./static/dicom_header.js";
import { readZip, writeZip } from "./static/zip_files.js";

const LIMITS = { ofSeries: false, maxBytes: 1000 };
const PNG = [0x89, 0x50, 0x4e, 0x47];
const file = (name, bytes = 10) => new File([new Uint8Array(bytes)], name);
const png = (name, bytes) => ({ file: file(name, bytes), kind: "png" });
const slice = (name, number, series = "1.2", frames = "") => ({ file: file(name), kind: "dicom", series, number: String(number), frames });
const names = (files) => files.map((one) => one.name);

/** An element with explicit VR. */
function element(group, number, type, value, length = value.length) {
  const long = ["SQ", "OB", "UN"].includes(type);
  const bytes = new Uint8Array((long ? 12 : 8) + value.length);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, group, true);
  view.setUint16(2, number, true);
  bytes.set([...type].map((letter) => letter.charCodeAt(0)), 4);
  long ? view.setUint32(8, length, true) : view.setUint16(6, length, true);
  bytes.set(typeof value === "string" ? [...value].map((letter) => letter.charCodeAt(0)) : value, long ? 12 : 8);
  return [...bytes];
}

const item = (number, length) => [0xfe, 0xff, number, 0xe0, ...[0, 8, 16, 24].map((bits) => (length >>> bits) & 0xff)];

function dicom(series, number, syntax = "1.2.840.10008.1.2.1") {
  const undefinedLength = 0xffffffff;
  const nested = [...item(0x00, undefinedLength), ...element(0x20, 0x0e, "UI", "9.9"), ...item(0x0d, 0), ...item(0xdd, 0)];
  return new Uint8Array([
    ...new Array(128).fill(0), ..."DICM".split("").map((letter) => letter.charCodeAt(0)),
    ...element(2, 0x10, "UI", syntax), ...element(8, 0x60, "CS", "CT"), ...element(8, 0x1140, "SQ", nested, undefinedLength),
    ...element(0x20, 0x0e, "UI", `${series}\0`), ...element(0x20, 0x13, "IS", `${number} `), ...element(0x28, 0x10, "US", [1, 0]),
  ]);
}

test("kinds of files are told by their first bytes", () => {
  assert.equal(fileKind(new Uint8Array(PNG), "a.txt"), "png");
  assert.equal(fileKind(dicom("1", 1), ""), "dicom");
  assert.equal(fileKind(dicom("1", 1).subarray(132), ""), "dicom");
  assert.equal(fileKind(new Uint8Array([0x1f, 0x8b, 8]), "scan.NII.gz"), "nifti");
  assert.equal(fileKind(new Uint8Array([0x1f, 0x8b, 8]), "notes.tar.gz"), null);
  assert.equal(fileKind(new TextEncoder().encode("Dear colleague, thank you for"), "letter.png"), null);
  assert.equal(fileKind(new Uint8Array(), "empty"), null);
});

test("a header is read past sequences of undefined length", () => {
  assert.deepEqual(dicomHeader(dicom("1.2.3", 7)), { modality: "CT", series: "1.2.3", number: "7" });
  assert.deepEqual(dicomHeader(dicom("1.2.3", 7).subarray(132)), { modality: "CT", series: "1.2.3", number: "7" });
  assert.deepEqual(dicomHeader(dicom("1.2.3", 7, "1.2.840.10008.1.2.2")), {});
  assert.deepEqual(dicomHeader(dicom("1.2.3", 7).subarray(0, 190)), { modality: "CT" });
  assert.deepEqual(dicomHeader(new Uint8Array(0)), {});
  const turned = "0.12345678901234\\0.12345678901234\\0.12345678901234\\0.12345678901234\\0.12345678901234\\0.12345678901234";
  const place = [...element(0x20, 0x12, "IS", "2 "), ...element(0x20, 0x32, "DS", "1\\2\\-3 "), ...element(0x20, 0x37, "DS", turned)];
  const { acquisition, position, orientation } = dicomHeader(new Uint8Array([...new Array(128).fill(0), 0x44, 0x49, 0x43, 0x4d, ...place]));
  assert.deepEqual([acquisition, position, orientation], ["2", "1\\2\\-3", turned]);
});

test("one image is one query", () => {
  assert.deepEqual(names([queryOfFiles([png("a.png")], LIMITS).file]), ["a.png"]);
});

test("several images are examples, as many as a request takes", () => {
  const few = queryOfFiles([png("a.png"), png("b.png"), { file: file("notes.txt"), kind: null }], LIMITS);
  assert.deepEqual([names(few.files), few.note], [["a.png", "b.png"], "1 file left out: not images."]);
  const many = queryOfFiles(Array.from({ length: 25 }, (_, index) => png(`${index}.png`)), LIMITS);
  assert.equal(many.files.length, 20);
  assert.match(many.note, /^5 images left out: one query takes 20 images/);
  const heavy = queryOfFiles([png("a.png", 600), png("b.png", 600), png("c.png", 300)], LIMITS);
  assert.deepEqual(names(heavy.files), ["a.png", "c.png"]);
});

test("slices of a series are a stack in the order of their numbers", () => {
  const query = queryOfFiles([slice("c", 10), slice("a", 9), slice("b", 1), slice("x", 1, "1.3"), png("cover.png")], LIMITS);
  assert.deepEqual(names(query.slices), ["b", "a", "c"]);
  assert.deepEqual([query.slice, query.file.name], [1, "a"]);
  assert.match(query.note, /^2 images left out: not of the longest series of 2/);
  assert.equal(queryOfFiles([slice("a", 1, "1.2", "30"), slice("b", 2, "1.2", "30")], LIMITS).slices, undefined);
  assert.deepEqual(names(queryOfFiles([slice("i10", ""), slice("i9", "")], LIMITS).slices), ["i9", "i10"]);
});

/** Names of axial slices {z: [name, acquisition, number, time]} in order. */
const ordered = (...slices) => names(
  orderSlices(slices.map(([name, z, more = {}]) => ({ file: file(name), position: `-100\\-90\\${z}`, orientation: "1\\0\\0\\0\\1\\0", ...more }))).map((one) => one.file),
);

test("slices of the user follow their positions", () => {
  assert.deepEqual(ordered(["c", 5], ["a", "-2.5"], ["b", 0]), ["a", "b", "c"]);
  const noisy = "1\\0.0001\\0\\0\\1\\0";
  assert.deepEqual(ordered(["b", 5, { number: "1", orientation: noisy }], ["a", 0, { number: "2" }]), ["a", "b"]);
});

test("passes of the user's slices follow each other", () => {
  const acquired = (name, z, acquisition) => [name, z, { acquisition }];
  assert.deepEqual(
    ordered(acquired("d", 5, "2"), acquired("a", 0, "1"), acquired("c", "0.004", "2"), acquired("b", 5, "1")),
    ["a", "b", "c", "d"],
  );
  const timed = (name, z, time) => [name, z, { time }];
  assert.deepEqual(ordered(timed("c", 0, "100100"), timed("a", 0, "100000"), timed("b", 5, "100001"), timed("d", 5, "100101")), ["a", "b", "c", "d"]);
  const numbered = (name, z, number) => [name, z, { number }];
  assert.deepEqual(ordered(numbered("c", 0, "3"), numbered("a", 0, "1"), numbered("b", 5, "2"), numbered("d", 5, "4")), ["a", "b", "c", "d"]);
});

test("times come before names, also within one acquisition", () => {
  for (const more of [{}, { acquisition: "1" }]) {
    const timed = (name, z, time) => [name, z, { time, ...more }];
    assert.deepEqual(ordered(timed("a", 0, "100100"), timed("b", 0, "100000"), timed("c", 5, "100101"), timed("d", 5, "100001")), ["b", "d", "a", "c"]);
  }
});

test("acquisitions that run through each other are passes of their own, and those that continue each other one", () => {
  const places = [0, 5, 10, 15];
  const acquired = (name, shift, acquisition) => places.map((z) => [`${name}${z}`, z + shift, { acquisition }]);
  const one = acquired("a", 0, "2").map(([name]) => name);
  const other = acquired("b", 0, "1").map(([name]) => name);
  assert.deepEqual(ordered(...acquired("a", 2.5, "2"), ...acquired("b", 0, "1")), [...other, ...one]);
  assert.equal(ordered(...acquired("a", 0, "2"), ...acquired("b", 12.5, "1")).indexOf("b0"), 3);
  assert.deepEqual(ordered(...acquired("a", -20, "2"), ...acquired("b", 0, "1")), [...one, ...other]);
});

test("slices are at one place from 0.001 to 0.1 mm, by their distance", () => {
  const numbered = (name, z, number) => [name, z, { number }];
  assert.deepEqual(ordered(numbered("a", 0, "1"), numbered("b", 0.5, "2"), numbered("c", 100, "3"), numbered("d", 200, "4")), ["a", "b", "c", "d"]);
  assert.deepEqual(ordered(numbered("a", 0.0005, "1"), numbered("b", 0, "2")), ["a", "b"]);
});

test("slices of another orientation, or without a position, come where their numbers are", () => {
  const coronal = { orientation: "1\\0\\0\\0\\0\\-1", number: "1" };
  const placed = [["b", 5, { number: "2" }], ["a", 0, { number: "3" }], ["scout", 0, coronal], ["last", 0, { number: "9", position: "" }]];
  assert.deepEqual(ordered(...placed), ["scout", "a", "b", "last"]);
});

test("a collection of series gets the whole series", () => {
  const query = queryOfFiles([slice("b", 2), slice("a", 1)], { ...LIMITS, ofSeries: true });
  assert.deepEqual(names(query.series), ["a", "b"]);
  assert.equal(query.slices, undefined);
});

test("what cannot be searched with says why, with size, limit and remedy", async () => {
  const refused = (described) => assert.throws(() => queryOfFiles(described, LIMITS), Problem);
  refused([{ file: file("notes.txt"), kind: null }]);
  refused([{ file: file("DICOMDIR"), kind: "dicom", sopClass: "1.2.840.10008.1.3.10" }]);
  assert.throws(() => queryOfFiles([png("big.png", 2048)], LIMITS), /big\.png has 2 KiB; the limit is 1,000 bytes\. Export/);
  await assert.rejects(readFiles([], LIMITS), /The folder is empty/);
  await assert.rejects(readFiles([file("none.png", 0)], LIMITS), /none\.png has 0 bytes/);
  const folder = { name: "study", slice: () => ({ arrayBuffer: () => Promise.reject(new Error("denied")) }) };
  await assert.rejects(readFiles([folder], LIMITS), /cannot read study. If it is a folder/);
  assert.equal(size(64 * 2 ** 20), "64 MiB");
});

test("messages of the service get the names of files", () => {
  const [one, other] = [file("a.png"), file("b.png")];
  assert.equal(withFileNames("The image sent is truncated.", { file: one }), "a.png is truncated.");
  assert.equal(withFileNames("Image 2 of 2 is truncated.", { file: one, files: [one, other] }), "b.png is truncated.");
  assert.equal(withFileNames("k: at most 5.", { file: one }), "k: at most 5.");
});

test("an archive is written and read again", async () => {
  const archive = await writeZip([new File([dicom("1", 2)], "patient name"), new File([dicom("1", 1)], "b")]);
  const written = new DataView(await archive.arrayBuffer());
  assert.equal(written.getUint32(14, true), crc32(dicom("1", 2)));
  const files = await readZip(archive);
  assert.deepEqual(names(files), ["1", "2"]);
  assert.deepEqual(new Uint8Array(await files[1].arrayBuffer()), dicom("1", 1));
  const query = await readFiles([archive], { ...LIMITS, maxBytes: 10_000 });
  assert.deepEqual([names(query.slices), query.frame, query.region], [["2", "1"], 1, null]);
  const whole = await readFiles(files, { ofSeries: true, maxBytes: 10_000 });
  assert.equal(whole.file.type, "application/zip");
  await assert.rejects(readZip(new File([new Uint8Array([0x50, 0x4b, 3, 4])], "x.zip")), /x\.zip is damaged/);
  const bytes = new Uint8Array(await archive.arrayBuffer());
  bytes[bytes.length - 22 - 47 * 2 + 8] |= 1;
  await assert.rejects(readZip(new File([bytes], "x.zip")), /encrypted/);
});
