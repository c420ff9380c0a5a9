// An entry of the list of cohorts.

import { element } from "../dom.js";
import { tr } from "../translate.js";

/** What is said below the title: collection, date, and who shares it. */
function facts({ collection, created, mine, owner, shared }, several) {
  const sharing = shared ? tr("shared") : tr("private");
  return [several ? collection : "", created.slice(0, 10), mine ? "" : owner, sharing].filter(Boolean).join(" · ");
}

function link(className, text, address) {
  const node = element("a", className, text);
  node.href = address;
  return node;
}

/** The entry of a cohort; several: there are several collections; canDelete: the caller may delete it. */
export function cohortItem(saved, { several, canDelete }) {
  const address = `/cohorts/${encodeURIComponent(saved.id)}`;
  const counts = tr("{found} found, {judged} judged", { found: saved.found, judged: saved.judged });
  const buttons = element("div", "buttons", link("button small primary", saved.mine ? tr("Go on") : tr("Open"), address));
  if (canDelete) {
    const remove = element("button", "button small danger", tr("Delete …"));
    remove.type = "button";
    remove.dataset.remove = saved.id;
    remove.setAttribute("aria-label", tr("Delete {title}", { title: saved.title }));
    buttons.append(remove);
  }
  const words = element(
    "div",
    "case-words",
    element("h2", "", link("", saved.title, address)),
    element("p", "", counts),
    element("p", "hint", facts(saved, several)),
    element("p", "excerpt", saved.note.slice(0, 240)),
    buttons,
  );
  return element("li", "cohort-item", words);
}
