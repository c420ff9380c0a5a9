import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import test from "node:test";

import { readable, summary, thumbnails } from "./static/docs/answer.js";
import { curlLine, quote } from "./static/docs/curl.js";
import { pythonWithMaker, readMaker, withMaker } from "./static/docs/makers.js";
import { buildRequest, fileType, replaceExamples, splitValues } from "./static/docs/request.js";

const SEARCH = { method: "POST", path: "/v1/search" };
const k = { name: "k", in: "query", values: ["5"], inForm: true };
const origin = "http://127.0.0.1:8000";

/** The arguments that a shell hands to curl. */
const argumentsOf = (line) =>
  execFileSync("sh", ["-c", line.replace(/^curl/, "printf '%s\\n'")], { env: { ...process.env, CBIR_TOKEN: "secret" }, encoding: "utf-8" })
    .trimEnd()
    .split("\n");

test("parameters go into path, address and headers", () => {
  const inputs = [
    { name: "image_id", in: "path", values: ["a/b"] },
    { name: "where", in: "query", values: ["x=1", "y>2"] },
    { name: "limit", in: "query", values: [] },
    { name: "If-Match", in: "header", values: ['"e"'] },
  ];
  const request = buildRequest({ method: "GET", path: "/v1/images/{image_id}" }, inputs, null);
  assert.deepEqual(request, { method: "GET", path: "/v1/images/a%2Fb?where=x%3D1&where=y%3E2", headers: [["If-Match", '"e"']], body: null });
});

test("parameters of a form are fields of it, those of other bodies stay in the address", () => {
  const form = buildRequest(SEARCH, [k], { kind: "form", files: ["query.png"] });
  assert.equal(form.path, "/v1/search");
  assert.deepEqual(form.body.fields, [["k", "5"]]);
  const only = buildRequest(SEARCH, [{ ...k, in: "form" }], { kind: "form", files: [] });
  assert.deepEqual([only.path, only.body.fields], ["/v1/search", [["k", "5"]]]);
  assert.equal(buildRequest(SEARCH, [k], { kind: "file", media: "image/*", files: [] }).path, "/v1/search?k=5");
  assert.equal(buildRequest(SEARCH, [{ ...k, inForm: false }], { kind: "form", files: [] }).path, "/v1/search?k=5");
});

test("a line of each kind of body", () => {
  const line = (inputs, body, options) => curlLine(buildRequest(SEARCH, inputs, body), { origin, ...options });
  assert.equal(line([k], { kind: "form", files: ["a.png", "b.png"] }), `curl -F image=@a.png -F image=@b.png -F k=5 ${origin}/v1/search`);
  assert.match(line([], { kind: "json", media: "application/json", text: '{ "k": 5 }' }), /-d '\{"k":5\}'/);
  assert.match(line([], { kind: "json", media: "application/json", text: "{ not JSON" }), /-d '\{ not JSON'/);
  assert.match(line([], { kind: "file", media: "image/*", files: ["a.png"] }), /'Content-Type: image\/png' --data-binary @a\.png/);
  assert.match(line([], { kind: "related", media: "multipart/related", files: ["a.dcm"] }), /-F 'file=@a\.dcm;type=application\/dicom'/);
  assert.match(line([], { kind: "form", files: ["a.png"] }, { token: true, output: "r.png" }), /Bearer \$CBIR_TOKEN" \\\n.*-o r\.png/s);
});

test("methods are named where curl would choose another", () => {
  const line = (method) => curlLine(buildRequest({ method, path: "/x" }, [], null), { origin });
  assert.equal(line("GET"), `curl ${origin}/x`);
  assert.equal(line("POST"), `curl -X POST ${origin}/x`);
  assert.equal(line("DELETE"), `curl -X DELETE ${origin}/x`);
});

test("a shell reads a line as it was meant", () => {
  const labels = `{"note": "it's $HOME & \`more\`; 100 %"}`;
  const inputs = [{ name: "labels", in: "query", values: [labels], inForm: true }, { name: "at", in: "query", values: ["@file"], inForm: true }];
  const request = buildRequest(SEARCH, inputs, { kind: "form", files: ["a b.png"] });
  const given = argumentsOf(curlLine(request, { origin, token: true }));
  assert.deepEqual(given, [
    "-H", "Authorization: Bearer secret", "-F", "image=@a b.png",
    "--form-string", `labels=${labels}`, "--form-string", "at=@file", `${origin}/v1/search`,
  ]);
  assert.equal(quote("k=5"), "k=5");
  assert.equal(quote(""), "''");
});

test("what a JSON body holds is not sent in the address too", () => {
  const json = { kind: "json", media: "application/json", text: '{"k": 3}' };
  assert.equal(buildRequest(SEARCH, [k], json).path, "/v1/search");
  assert.equal(buildRequest(SEARCH, [k], { ...json, text: '{"image_id": "x"}' }).path, "/v1/search?k=5");
  assert.equal(buildRequest(SEARCH, [{ ...k, inForm: false }], json).path, "/v1/search?k=5");
});

const MAKER = { variable: "CASE_ID", example: "c81f", field: "id", python: 'client.save_case("ex").id', request: { method: "POST", path: "/v1/cases", headers: [], body: { kind: "form", files: ["q.png"], fields: [] } } };

test("a line makes what the next one names", () => {
  const line = (text) => withMaker(text, MAKER, { origin, output: "a.png" });
  const answer = `{"title":"x","id":"abc-2","ids":["other"]}`;
  const run = (text) => execFileSync("sh", ["-c", `curl() { [ "$1" = -s ] && printf '%s' '${answer}' || printf '%s\\n' "$@"; }; ${text}`], { encoding: "utf-8" }).trim();
  assert.equal(run(line("curl /v1/cases/c81f")), "/v1/cases/abc-2");
  assert.equal(run(line(`curl -d '{"ids":["c81f"],"n":"it'\\''s c81f"}'`)), `-d\n{"ids":["abc-2"],"n":"it's abc-2"}`);
  assert.equal(run(withMaker("curl c81f", { ...MAKER, field: "ids" }, { origin })), "other");
  assert.doesNotMatch(line("curl x"), /-o a\.png.*\|/s);
  assert.equal(withMaker("curl x", null, { origin }), "curl x");
  assert.equal(pythonWithMaker('client.case("c81f")', MAKER), 'case_id = client.save_case("ex").id\nclient.case(case_id)');
});

test("a maker names what exists, and an image that is changed is the made one alone", () => {
  const dataset = (maker, confirm) => ({ dataset: { maker: JSON.stringify(maker), confirm } });
  const known = { c81f: "known", ex: "real" };
  assert.equal(readMaker(dataset(MAKER), known).python, 'client.save_case("real").id');
  assert.deepEqual(readMaker(dataset(MAKER, "Sure?"), known).others, { ex: "real" });
  assert.deepEqual(readMaker(dataset({ ...MAKER, variable: "IMAGE_ID" }, "Sure?"), known).others, {});
  assert.equal(readMaker({ dataset: {} }, known), null);
});

test("inputs are split into values", () => {
  assert.deepEqual(splitValues(" a=1 \n\n b=2", true), ["a=1", "b=2"]);
  assert.deepEqual(splitValues(" ", false), []);
  assert.deepEqual(splitValues("40,60,1,2", false), ["40,60,1,2"]);
});

test("examples become known values", () => {
  assert.equal(replaceExamples('image("ex"), "ex"', { ex: "real" }), 'image("real"), "real"');
  assert.equal(replaceExamples("ex", {}), "ex");
  assert.equal(fileType("application/dicom"), "application/dicom");
});

test("answers are shown readably", () => {
  assert.equal(readable('{"a":[1]}', "application/problem+json"), '{\n  "a": [\n    1\n  ]\n}');
  assert.equal(readable("{broken", "application/json"), "{broken");
  assert.match(readable("x".repeat(300_000), "text/plain"), /100000 more characters$/);
  assert.deepEqual(thumbnails({ results: [{ links: { thumbnail: "/a" } }, { links: { thumbnail: "/b", image: "/c" } }] }), ["/a", "/b"]);
  assert.deepEqual(thumbnails(null), []);
  assert.equal(summary({ status: 200, statusText: "" }, 12.4, 999), "200 · 12 ms · 999 bytes");
  assert.equal(summary({ status: 404, statusText: "NOT FOUND" }, 3.6, 1234), "404 NOT FOUND · 4 ms · 1.2 kB");
});
