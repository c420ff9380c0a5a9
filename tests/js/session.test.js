import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

globalThis.document = { querySelector: () => null, createComment() {}, createTreeWalker() {} };
const { Session } = await import("./static/login/session.js");

let sent; // [address, value of X-CSRF-Token]
let valid; // the value that the service accepts

beforeEach(() => {
  sent = [];
  valid = "first";
  globalThis.fetch = async (address, { headers }) => {
    const value = headers["X-CSRF-Token"];
    sent.push([address, value]);
    return { status: value === valid ? 200 : valid ? 401 : 403, body: address };
  };
});

const never = () => assert.fail("not needed");

test("requests carry the proof of the login, and their own headers", async () => {
  const headers = [];
  globalThis.fetch = async (address, options) => headers.push(options.headers) && { status: 200 };
  await new Session("first", never, never).fetch("/a", { headers: { Accept: "text/csv" } });
  await new Session(undefined, never, never).fetch("/a");
  assert.deepEqual(headers, [{ Accept: "text/csv", "X-CSRF-Token": "first" }, {}]);
});

test("a request is sent again after a new login", async () => {
  valid = "second";
  const session = new Session("first", never, async () => "second");
  assert.equal((await session.fetch("/a")).status, 200);
  assert.deepEqual(sent, [["/a", "first"], ["/a", "second"]]);
  await session.fetch("/b");
  assert.deepEqual(sent.at(-1), ["/b", "second"]);
});

test("the user is asked once for all requests that wait", async () => {
  valid = "second";
  let asked = 0;
  const session = new Session("first", never, async () => {
    asked += 1;
    await new Promise((resolve) => setTimeout(resolve, 5));
    return "second";
  });
  const answers = await Promise.all(["/a", "/b", "/c"].map((address) => session.fetch(address)));
  assert.deepEqual(answers.map(({ status }) => status), [200, 200, 200]);
  assert.equal(asked, 1);
});

test("a user who cancels gets the refusal, and is asked again next time", async () => {
  valid = "second";
  let asked = 0;
  const session = new Session("first", never, async () => void (asked += 1));
  assert.equal((await session.fetch("/a")).status, 401);
  assert.equal((await session.fetch("/a")).status, 401);
  assert.deepEqual([asked, sent.length], [2, 2]);
});

test("a login of another tab is used without asking", async () => {
  globalThis.fetch = async (_, { headers }) => ({ status: headers["X-CSRF-Token"] === "second" ? 200 : 403 });
  assert.equal((await new Session("first", async () => "second", never).fetch("/a")).status, 200);
});

test("what the login does not allow is refused once", async () => {
  valid = undefined;
  const session = new Session("first", async () => "first", never);
  assert.equal((await session.fetch("/a")).status, 403);
  assert.equal(sent.length, 1);
});

test("a page without a login asks nobody", async () => {
  assert.equal((await new Session(undefined, never, never).fetch("/a")).status, 401);
});

test("other refusals are passed on", async () => {
  globalThis.fetch = async () => ({ status: 422 });
  assert.equal((await new Session("first", never, never).fetch("/a")).status, 422);
});
