// The section "Health".

import { byId, element } from "../dom.js";
import { tr } from "../translate.js";
import { setText, showFacts, showItems } from "./keyed_rows.js";
import { duration, partWords, size } from "./words.js";

const GOOD = ["ok", "ready"];

function showPart(node, part) {
  const [name, state] = node.children;
  const tone = GOOD.includes(part.state) ? "good" : part.state === "off" ? "off" : "bad";
  if (node.dataset.tone !== tone) node.dataset.tone = tone;
  const { title, text } = partWords(part);
  setText(name, title);
  setText(state, text);
}

/** Show the health of the service. */
export function show(health) {
  const build = () => element("li", "part", element("strong", ""), element("span", ""));
  showItems(byId("parts"), health.parts, ({ name }) => name, build, showPart);
  showFacts(byId("load"), [
    [tr("Running for"), duration((Date.now() - new Date(health.started)) / 1000)],
    [tr("Requests at work"), tr("{working} of {threads}", health)],
    [tr("Requests waiting"), tr("{waiting} of {queue}", health)],
    ...(health.memory_bytes === null ? [] : [[tr("Memory in use"), size(health.memory_bytes)]]),
    ...health.disks.map(({ folder, free_bytes, total_bytes }) => [
      tr("Disk of {folder}", { folder }),
      tr("{free} free of {total}", { free: size(free_bytes), total: size(total_bytes) }),
    ]),
  ]);
  showFacts(byId("versions"), Object.entries(health.versions));
}
