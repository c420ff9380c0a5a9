// The table of the groups: colour, name, number of images, whether they are shown, and the way to the gallery.

import { byId, element } from "../dom.js";
import { number, tr, trn } from "../translate.js";
import { galleryAddress } from "./map_address.js";

const SVG = "http://www.w3.org/2000/svg";
const OUTLINES = { square: "2,2 12,2 12,12 2,12", triangle: "7,1 13,13 1,13", diamond: "7,0 14,7 7,14 0,7" };

function sign({ colour, shape }) {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("viewBox", "0 0 14 14");
  picture.setAttribute("aria-hidden", "true");
  const outline = document.createElementNS(SVG, shape === "circle" ? "circle" : "polygon");
  const facts = shape === "circle" ? { cx: 7, cy: 7, r: 6 } : { points: OUTLINES[shape] };
  for (const [name, value] of Object.entries({ ...facts, fill: colour })) outline.setAttribute(name, value);
  picture.append(outline);
  return picture;
}

/** The name of a group as a person reads it. */
export function groupName(group) {
  if (group.name === null) return tr("Without this label");
  return group.more ? trn("{count} rarer value", "{count} rarer values", group.more) : group.name;
}

/** Show groups; onChange(hidden, emphasised) after each choice. */
export function showLegend(groups, collection, onChange) {
  const hidden = new Set();
  let emphasised = null;
  const buttons = [];
  const boxes = [];

  function update() {
    buttons.forEach((button, group) => button.setAttribute("aria-pressed", String(group === emphasised)));
    boxes.forEach((box, group) => {
      box.checked = !hidden.has(group);
    });
    byId("show-all").disabled = !hidden.size && emphasised === null;
    onChange(hidden, emphasised);
  }

  const rows = groups.map((group, index) => {
    const name = groupName(group);
    const box = element("input");
    Object.assign(box, { type: "checkbox", checked: true });
    box.setAttribute("aria-label", tr("Show {group}", { group: name }));
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(index);
      else hidden.add(index);
      update();
    });
    boxes.push(box);
    const button = element("button", "group", sign(group), element("span", "", name));
    Object.assign(button, { type: "button", title: tr("Highlight") });
    button.addEventListener("click", () => {
      emphasised = emphasised === index ? null : index;
      if (emphasised !== null) hidden.delete(index);
      update();
    });
    buttons.push(button);
    const open = element("td", "");
    if (group.where) {
      const link = element("a", "", "▦");
      link.href = galleryAddress(collection, group.where);
      link.title = tr("Show {group} in the gallery", { group: name });
      link.setAttribute("aria-label", link.title);
      open.append(link);
    }
    const heading = element("th", "", button);
    heading.scope = "row";
    return element("tr", "", element("td", "", box), heading, element("td", "count", number(group.count)), open);
  });
  byId("groups").replaceChildren(...rows);
  byId("show-all").onclick = () => {
    hidden.clear();
    emphasised = null;
    update();
  };
  update();
}
