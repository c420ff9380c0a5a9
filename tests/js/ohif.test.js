import assert from "node:assert/strict";
import { test } from "node:test";

import extension, { addressOf, follow } from "./static/ohif.js";

const SETS = {
  first: { StudyInstanceUID: "1.2", SeriesInstanceUID: "1.2.3" },
  second: { StudyInstanceUID: "1.2", SeriesInstanceUID: "1.2.4" },
  report: { StudyInstanceUID: "1.2" },
};

/** Return services of OHIF with one viewport, what subscribed to it, and how to show another series in it. */
function viewer(shown) {
  const subscribers = new Map();
  const viewports = new Map([["a", { displaySetInstanceUIDs: shown ? [shown] : [] }]]);
  const viewportGridService = {
    EVENTS: { ACTIVE_VIEWPORT_ID_CHANGED: "active", GRID_STATE_CHANGED: "grid" },
    getState: () => ({ activeViewportId: "a", viewports }),
    subscribe(event, call) {
      subscribers.set(event, call);
      return { unsubscribe: () => subscribers.delete(event) };
    },
  };
  const show = (uid) => {
    viewports.set("a", { displaySetInstanceUIDs: [uid] });
    subscribers.get("grid")?.();
  };
  const services = { viewportGridService, displaySetService: { getDisplaySetByUID: (uid) => SETS[uid] } };
  return { services, subscribers, show };
}

test("the address names the series in the active viewport", () => {
  const { services } = viewer("first");
  assert.equal(addressOf(services, "https://cbir.example.org"), "https://cbir.example.org/similar?study=1.2&series=1.2.3");
});

test("an empty viewport, an unknown set and one without a series have no address", () => {
  for (const shown of [null, "unknown", "report"]) assert.equal(addressOf(viewer(shown).services, "https://x"), null);
});

test("the frame follows the viewport until the panel closes", () => {
  const { services, subscribers, show } = viewer("first");
  const ref = follow(services, "https://x");
  const frame = { src: "" };
  ref(frame);
  assert.equal(frame.src, "https://x/similar?study=1.2&series=1.2.3");
  show("second");
  assert.equal(frame.src, "https://x/similar?study=1.2&series=1.2.4");
  show("report");
  assert.equal(frame.src, "https://x/similar?study=1.2&series=1.2.4");
  ref(null);
  assert.equal(subscribers.size, 0);
  show("first");
  assert.equal(frame.src, "https://x/similar?study=1.2&series=1.2.4");
});

test("a page that shows what is asked for is not loaded again", () => {
  const { services, show } = viewer("first");
  let loads = 0;
  const frame = { address: "", get src() { return this.address; }, set src(value) { loads += 1; this.address = value; } };
  follow(services, "https://x")(frame);
  show("first");
  assert.equal(loads, 1);
});

test("the panel is a frame for React", () => {
  const { services } = viewer("first");
  const [panel] = extension.getPanelModule({ servicesManager: { services } });
  const element = panel.component();
  assert.equal(panel.name, "similar");
  assert.equal(element.type, "iframe");
  assert.equal(element.ref, panel.component().ref); // another function would load the page again each time
});
