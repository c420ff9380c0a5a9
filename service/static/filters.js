// Conditions on labels: written, chosen from those that exist, taken away one by one.

import { element } from "./answers.js";

const at = (id) => document.getElementById(id);

/** The conditions as they stand in the field. */
export function read() {
  return at("where").value.split(";").map((text) => text.trim()).filter(Boolean);
}

/** Put conditions into the field. */
export function write(conditions) {
  at("where").value = conditions.join("; ");
  show();
}

/** Show the conditions as chips that can be taken away. */
export function show() {
  const conditions = read();
  at("chips").hidden = !conditions.length;
  at("chips").replaceChildren(
    ...conditions.map((condition) => {
      const button = element("button", "chip", condition, element("span", "", " ×"));
      button.type = "button";
      button.setAttribute("aria-label", `Take away the filter ${condition}`);
      button.dataset.condition = condition;
      return element("li", "", button);
    }),
  );
}

/** Call `changed` when the reader has chosen a filter or taken one away. */
export function install(changed) {
  at("filter-field").addEventListener("change", ({ target }) => {
    const chosen = target.value;
    target.value = "";
    if (!chosen || read().includes(chosen)) return;
    write([...read(), chosen]);
    changed();
  });
  at("chips").addEventListener("click", (event) => {
    const chip = event.target.closest("button");
    if (!chip) return;
    write(read().filter((condition) => condition !== chip.dataset.condition));
    (at("chips").querySelector("button") ?? at("where")).focus();
    changed();
  });
  at("where").addEventListener("input", show);
}
