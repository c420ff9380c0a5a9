// Filter conditions on labels: typed, chosen from existing labels, removed one by one.

import { byId, element } from "./dom.js";
import { tr } from "./translate.js";

/** The conditions in the field. */
export function read() {
  return byId("where").value.split(";").map((text) => text.trim()).filter(Boolean);
}

/** Set the conditions in the field. */
export function write(conditions) {
  byId("where").value = conditions.join("; ");
  show();
}

/** Show the conditions as removable chips. */
export function show() {
  const conditions = read();
  byId("chips").hidden = !conditions.length;
  byId("chips").replaceChildren(
    ...conditions.map((condition) => {
      const button = element("button", "chip", condition, element("span", "", " ×"));
      button.type = "button";
      button.setAttribute("aria-label", tr("Remove the filter {condition}", { condition }));
      button.dataset.condition = condition;
      return element("li", "", button);
    }),
  );
}

/** Call onChange() when the user adds a filter from the list or removes one. */
export function install(onChange) {
  byId("filter-field").addEventListener("change", ({ target }) => {
    const condition = target.value;
    target.value = "";
    if (!condition || read().includes(condition)) return;
    write([...read(), condition]);
    onChange();
  });
  byId("chips").addEventListener("click", (event) => {
    const chip = event.target.closest("button");
    if (!chip) return;
    write(read().filter((condition) => condition !== chip.dataset.condition));
    (byId("chips").querySelector("button") ?? byId("where")).focus();
    onChange();
  });
  byId("where").addEventListener("input", show);
}
