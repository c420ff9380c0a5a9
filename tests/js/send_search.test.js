import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

const { isShownByBrowser } = await import("./static/file_kind.js");
const { sendSearch } = await import("./static/search/send_search.js");

let requests = [];
let answers = [];

const reply = async (address, { body }) => {
  requests.push({ address, body });
  const { status = 200, ...answer } = answers.shift() ?? {};
  return new Response(JSON.stringify({ query: { vector: [[1]], profile: "p", origin: [{}] }, ...answer }), { status });
};
globalThis.fetch = reply;

/** What of XMLHttpRequest a request with its progress uses. */
class Upload {
  upload = { addEventListener() {} };
  listeners = {};
  open(method, address) {
    this.address = address;
  }
  setRequestHeader() {}
  getAllResponseHeaders() {
    return "";
  }
  addEventListener(name, act) {
    this.listeners[name] = act;
  }
  async send(body) {
    const response = await reply(this.address, { body });
    Object.assign(this, { status: response.status, response: await response.blob() });
    this.listeners.load();
  }
}
globalThis.XMLHttpRequest = Upload;

const png = (depth) => Uint8Array.of(0x89, 0x50, 0x4e, 0x47, ...Array(20).fill(0), depth);
const fileOf = (bytes) => new File([bytes], "a file of Mr Miller");
const here = { collection: "knees", onProgress() {} };
const sent = (index) => (requests[index].body instanceof FormData ? "file" : JSON.parse(requests[index].body));
const includes = (index) => requests[index].body.getAll("include");

beforeEach(() => {
  requests = [];
  answers = [];
});

test("a file is sent once, and again for another part of it or another collection", async () => {
  const query = { file: fileOf("x"), frame: 1, window: null, region: null };
  const fields = { k: 3, where: ["a=b"], include: ["cards", "before", "grade"] };
  await sendSearch(query, fields, here);
  await sendSearch(query, { ...fields, where: [] }, here);
  await sendSearch({ ...query, region: [0, 0, 9, 9] }, fields, here);
  await sendSearch({ ...query, region: [0, 0, 9, 9] }, fields, { ...here, collection: "ct" });
  assert.deepEqual([0, 2, 3].map(sent), ["file", "file", "file"]);
  assert.deepEqual(sent(1), { vector: [[1]], profile: "p", origin: [{}], k: 3, where: [], include: ["cards", "before"] });
  assert.equal(requests[3].address, "/v1/collections/ct/search");
});

test("what features said of a picture goes along with its vector, and not with another part", async () => {
  const query = { file: fileOf("x") };
  answers = [{ extras: { grade: 2 } }, { extras: {} }, { extras: { grade: null } }];
  await sendSearch(query, { include: ["grade"] }, here);
  assert.deepEqual((await sendSearch(query, { k: 9, include: ["grade"] }, here)).extras, { grade: 2 });
  assert.deepEqual((await sendSearch({ ...query, frame: 2 }, { include: ["grade"] }, here)).extras, { grade: null });
});

test("a vector that is refused is forgotten", async () => {
  const query = { file: fileOf("x") };
  answers = [{}, { status: 422 }, {}];
  await sendSearch(query, {}, here);
  await assert.rejects(sendSearch(query, {}, here));
  await sendSearch(query, {}, here);
  assert.equal(sent(2), "file");
});

test("other hospitals are asked with the file, and without parameters of a method", async () => {
  const query = { file: fileOf("x") };
  await sendSearch(query, {}, here);
  await sendSearch(query, { federated: true, rerank: "none", parameters: undefined, include: ["cards"] }, here);
  assert.deepEqual([...requests[1].body.keys()], ["image", "federated", "rerank", "include"]);
});

test("values are asked for where the browser cannot show the file", async () => {
  await sendSearch({ file: fileOf(png(8)) }, { include: ["cards"] }, here);
  await sendSearch({ file: fileOf(png(16)) }, { include: ["cards"] }, here);
  await sendSearch({ file: fileOf(png(16)), region: [0, 0, 9, 9] }, { include: ["cards"] }, here);
  assert.deepEqual([0, 1, 2].map(includes), [["cards", "vector"], ["cards", "vector", "pixels"], ["cards", "vector"]]);
  assert.equal(await isShownByBrowser(fileOf(Uint8Array.of(0xff, 0xd8, 0xff))), true);
  assert.equal(await isShownByBrowser(fileOf("II*\0")), false);
});

test("no file goes with its name", async () => {
  await sendSearch({ file: fileOf("x") }, {}, here);
  assert.equal(requests[0].body.get("image").name, "image");
});
