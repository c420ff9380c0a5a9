// An entry of the list of cases.

import { element, replaceIfMissing } from "../dom.js";
import { tr } from "../translate.js";

const MAX_NOTE = 240; // characters that are shown

function film(picture) {
  if (!picture) return element("span", "film");
  const image = element("img");
  image.alt = "";
  image.loading = "lazy";
  image.src = picture;
  replaceIfMissing(image);
  return element("span", "film", image);
}

/** What is said below the title: collection, date, and who shares it. */
export function facts({ collection, created, mine, owner, shared }, several) {
  const date = created.slice(0, 10);
  return [several ? collection : "", date, mine ? "" : owner, shared ? tr("shared") : tr("private")].filter(Boolean).join(" · ");
}

function link(className, text, address) {
  const node = element("a", className, text);
  node.href = address;
  return node;
}

/** The entry of a case; several: there are several collections; canDelete: the caller may delete it. */
export function caseItem(saved, { several, canDelete }) {
  const address = `/cases/${encodeURIComponent(saved.id)}`;
  const query = new URLSearchParams(several ? { case: saved.id, collection: saved.collection } : { case: saved.id });
  const note = saved.note.length > MAX_NOTE ? `${saved.note.slice(0, MAX_NOTE)}…` : saved.note;
  const title = element("h2", "", link("", saved.title, address));
  const buttons = element(
    "div",
    "buttons",
    link("button small primary", tr("Open the search"), `/?${query}`),
    link("button small", tr("Note and teaching file"), address),
  );
  if (canDelete) {
    const remove = element("button", "button small danger", tr("Delete …"));
    remove.type = "button";
    remove.dataset.remove = saved.id;
    remove.setAttribute("aria-label", tr("Delete {title}", { title: saved.title }));
    buttons.append(remove);
  }
  const item = element(
    "li",
    "case-item",
    film(saved.picture),
    element("div", "case-words", title, element("p", "hint", facts(saved, several)), element("p", "excerpt", note), buttons),
  );
  item.dataset.case = saved.id;
  return item;
}
