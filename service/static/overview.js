// What the results say together: how like the collection the query is, and the shares of a label.

import { byId, element } from "./dom.js";
import { agreementText, labelKeys, likenessText, shares } from "./label_shares.js";
import { tr } from "./translate.js";

let current = null; // the answer that is shown
let chosenKey = null; // by the user, kept for later answers that have it

/** Hide the overview. */
export function clear() {
  current = null;
  byId("overview").hidden = true;
}

/** Show the overview of an answer. */
export function show(answer) {
  current = answer;
  const keys = labelKeys(answer.results);
  const { outlier } = answer.query;
  const likeness = byId("likeness");
  likeness.textContent = likenessText(answer.query);
  likeness.classList.toggle("outlier", Boolean(outlier));
  byId("outlier-advice").hidden = !outlier;
  const select = byId("share-key");
  select.replaceChildren(...keys.map((key) => new Option(key, key)));
  if (keys.includes(chosenKey)) select.value = chosenKey;
  byId("shares").hidden = !keys.length;
  drawShares();
  byId("overview").hidden = !likeness.textContent && !keys.length;
}

function drawShares() {
  const key = byId("share-key").value;
  const parts = key ? shares(current.results, key) : [];
  const words = ({ value, count, share }) => {
    const name = value === undefined ? tr("without {key}", { key }) : value === null ? tr("other values") : value;
    return tr("{name} {count} ({percent} %)", { name, count, percent: Math.round(share * 100) });
  };
  const bar = parts.map((part, index) => {
    const segment = element("span", `share share-${colour(part, index)}`);
    segment.style.flexGrow = part.count;
    segment.title = words(part);
    return segment;
  });
  byId("share-bar").replaceChildren(...bar);
  const legend = parts.map((part, index) => {
    return element("li", "", element("span", `swatch share-${colour(part, index)}`), words(part));
  });
  byId("share-legend").replaceChildren(...legend);
  byId("agreement").textContent = agreementText(current.agreement.find((each) => each.key === key));
}

/** The number of a part's colour; "rest" for other values and results without the label. */
function colour({ value }, index) {
  return value === null || value === undefined ? "rest" : index;
}

/** Draw again when the user chooses a label. */
export function install() {
  byId("share-key").addEventListener("change", () => {
    chosenKey = byId("share-key").value;
    drawShares();
  });
}
