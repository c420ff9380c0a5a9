import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

const { changeAndRead, moreButton } = await import("./static/list_page.js");
const { state, update } = await import("./static/page_state.js");
const { changeForm } = await import("./static/saved/own.js");

let answers = [];
globalThis.fetch = async () => {
  const [status, body = null] = answers.shift();
  return new Response(body && JSON.stringify(body), { status });
};

/** What a template calls for an event of the element whose tag has this text. */
const handler = ({ strings, values }, tag) => values[strings.findIndex((text, index) => strings.slice(0, index + 1).join("").includes(tag) && /@\w+=$/.test(text))];

beforeEach(() => update({ busy: false, problem: null }));

test("a change that has been made is not made again when reading what follows has failed", async () => {
  const done = [];
  const read = async () => {
    done.push("read");
    if (done.length < 3) throw new Error("lost");
  };
  const running = changeAndRead(async () => done.push("change"), read);
  assert.equal(changeAndRead(async () => done.push("change"), read), null); // one at a time
  await running;
  assert.equal(state.problem.message, "lost");
  await state.problem.again();
  assert.deepEqual([done, state.problem, state.busy], [["change", "read", "read"], null, false]);
});

test("a change that has failed is made again", async () => {
  const done = [];
  await changeAndRead(async () => done.push("change") > 1 || Promise.reject(new Error("lost")), async () => done.push("read"));
  await state.problem.again();
  assert.deepEqual(done, ["change", "change", "read"]);
});

test("more is loaded once, also by two clicks", () => {
  const loaded = [];
  const click = handler(moreButton("41", () => loaded.push("41")), 'id="more"');
  click();
  update({ busy: true });
  click();
  assert.deepEqual(loaded, ["41"]);
});

test("another note takes back that the user has looked at what is in the file", async () => {
  const saved = { id: "c1", title: "Knee", note: "", mine: true };
  update({ kind: "cases", saved, checked: true });
  answers = [[200, { note: "Mr Miller" }]];
  const elements = { title: { value: "Knee" }, note: { value: "Mr Miller" }, shared: { checked: false } };
  handler(changeForm({ saved, facts: {} }), "<form")({ preventDefault() {}, target: { elements } });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual([state.saved.note, state.checked, state.busy], ["Mr Miller", false, false]);
});
