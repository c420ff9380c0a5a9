// Lists that refresh without flicker: what is the same stays the same element, with focus and selection.

import { element } from "../dom.js";

/** Set the text of an element if it differs. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Show items as children of `list`: those with a known key are filled again, others are built, the rest is removed. */
export function showItems(list, items, keyOf, build, fill) {
  const known = new Map([...list.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, index) => {
    const key = keyOf(item);
    const child = known.get(key) ?? build(item);
    child.dataset.key = key;
    known.delete(key);
    fill(child, item);
    if (list.children[index] !== child) list.insertBefore(child, list.children[index] ?? null);
  });
  for (const child of known.values()) child.remove();
}

/** Show items as rows of a table; cellsOf(item) are the texts of the cells, the first is the row's header. */
export function showRows(body, items, keyOf, cellsOf, { numbers = [], tail } = {}) {
  const build = (item) => {
    const row = element("tr", "");
    cellsOf(item).forEach((_, index) => {
      const cell = element(index ? "td" : "th", numbers.includes(index) ? "number" : "");
      if (!index) cell.scope = "row";
      row.append(cell);
    });
    if (tail) row.append(element("td", "tail", ...tail(item)));
    return row;
  };
  showItems(body, items, keyOf, build, (row, item) => cellsOf(item).forEach((text, index) => setText(row.children[index], text)));
}

/** Show [term, text] pairs in a definition list. */
export function showFacts(list, facts) {
  const build = () => element("div", "", element("dt", ""), element("dd", ""));
  showItems(list, facts, ([term]) => term, build, (node, [term, text]) => {
    setText(node.firstChild, term);
    setText(node.lastChild, text);
  });
}
