// The tabs of an audit: a title with a number each, and what their panel shows.

import { element } from "../dom.js";
import { fixed, mark, number, tr, trn } from "../translate.js";
import { bar, figure, row, rows, table } from "./parts.js";
import { suspectRows } from "./suspects.js";

const PERCENT = { style: "percent", maximumFractionDigits: 2 };
const MEMBERS = 12; // pictures of a group
const LISTED_MEMBERS = 50; // the service names no more of a group
const CHANGES = {
  reference: mark("reference"),
  identical: mark("identical"),
  resized: mark("resized"),
  recompressed: mark("recompressed"),
  gamma: mark("brightness"),
  rotated: mark("rotated"),
  inverted: mark("inverted"),
  flipped: mark("flipped"),
  cropped: mark("cropped"),
  text: mark("text"),
};
const KINDS = {
  patient: mark("the same patient"),
  study: mark("the same study"),
  picture: mark("the same picture"),
  "near-duplicate": mark("near-duplicates"),
};

const text = (...words) => element("p", "hint", ...words);
const changeText = (change) => change.split("+").map((part) => tr(CHANGES[part] ?? part)).join(", ");

function duplicates({ items }) {
  const groups = items.map((members) =>
    row(
      trn("{count} image", "{count} images", members.length) + (members.length < LISTED_MEMBERS ? "" : " +"),
      members.slice(0, MEMBERS).map(({ image_id, change }) => figure(image_id, changeText(change))),
    ),
  );
  return [groups.length ? rows(groups) : text(tr("None were found."))];
}

function leaks(found) {
  if (!found) return [text(tr("Choose the label of the split to look for leaks."))];
  const items = found.items.map(({ kind, images }) =>
    row(tr(KINDS[kind] ?? kind), images.slice(0, MEMBERS).map(({ image_id, part }) => figure(image_id, part))),
  );
  return [items.length ? rows(items) : text(tr("None were found."))];
}

function labels(found, corrected) {
  if (!found) return [text(tr("Choose a label to look for errors in it."))];
  const hint = text(tr("Beside each image are its nearest images with the other value. Y changes the label, N keeps it, J and K go on and back."));
  return found.items.length ? [valueTable(found), hint, suspectRows(found, corrected)] : [text(tr("None were found."))];
}

/** How many labels of each value are suspect, and what they look like. */
function valueTable({ values, confusions }) {
  const suspect = values.filter(({ suspects }) => suspects);
  const lines = suspect.map(({ value, images, suspects }) => {
    const others = confusions.filter(({ label }) => label === value);
    return [
      value,
      number(images),
      number(suspects),
      number(suspects / images, PERCENT),
      others.map((other) => `${other.suggested} (${number(other.images)})`).join(", "),
    ];
  });
  const heads = [tr("Value"), tr("Images"), tr("Suspect"), tr("Share"), tr("Looks like")];
  return element("details", "audit-values", element("summary", "", tr("By value")), table(heads, lines));
}

function outliers({ items }) {
  const figures = items.map(({ image_id, likeness }) =>
    row(tr("{share} of the images are as far from others", { share: number(likeness, PERCENT) }), [figure(image_id, "")]),
  );
  return [figures.length ? rows(figures) : text(tr("None were found."))];
}

function weeksOf(weeks) {
  if (!weeks.length) return text(tr("Images were added in too few weeks to compare."));
  const marks = weeks.map(({ monday, images, p, alarm }) => {
    const node = element("i", alarm ? "alarm" : "");
    node.style.height = `${Math.max(2, 28 * (1 - p) ** 4)}px`;
    node.title = `${monday}: ${trn("{count} image", "{count} images", images)}, p = ${fixed(p, 4)}`;
    return node;
  });
  return element("div", "audit-weeks", ...marks);
}

function drift({ sources }) {
  if (!sources.some(({ weeks }) => weeks.length)) return [weeksOf([])];
  const lines = sources.map(({ source, images, alarms, weeks }) => [source, number(images), number(alarms), weeksOf(weeks)]);
  const alarms = sources.flatMap(({ source, weeks }) =>
    weeks.filter((week) => week.alarm).map(({ monday, image_ids }) => row(`${source} · ${monday}`, image_ids.map((id) => figure(id, "")))),
  );
  return [table([tr("Source"), tr("Images"), tr("Alarms"), tr("Weeks")], lines), rows(alarms)];
}

function coverage({ labels: keys }, groups) {
  const nodes = keys.flatMap(({ key, values }) => {
    const most = Math.max(...values.map((value) => value.images), 1);
    const lines = values.map(({ value, images, patients, thin }) => [
      element("span", thin ? "warn" : "", thin ? tr("{value} (few)", { value }) : value),
      number(images),
      patients === null ? "–" : number(patients),
      bar(images / most),
    ]);
    return [element("h2", "", key), table([tr("Value"), tr("Images"), tr("Patients"), ""], lines)];
  });
  if (groups?.length) {
    const lines = groups.map((group) => [
      group.key,
      element("span", group.worse ? "warn" : "", group.value),
      number(group.images),
      fixed(group.precision, 3),
      `${fixed(group.difference, 3)} (${fixed(group.low, 3)} – ${fixed(group.high, 3)})`,
      fixed(group.p, 4),
    ]);
    const heads = [tr("Label"), tr("Group"), tr("Images"), "P@10", tr("Difference to others of the same label"), "p"];
    nodes.unshift(element("h2", "", tr("Retrieval by group")), table(heads, lines));
  }
  return nodes;
}

/** The tabs {name, title, count, show} of an audit; corrected: values of labels that were changed since, by image id. */
export function tabsOf(audit, corrected) {
  const checked = audit.drift.sources.some(({ weeks }) => weeks.length);
  const leaked = audit.leaks && Object.values(audit.leaks.counts).reduce((sum, count) => sum + count, 0);
  return [
    { name: "labels", title: tr("Labels"), count: audit.labels?.suspects, show: () => labels(audit.labels, corrected) },
    { name: "duplicates", title: tr("Duplicates"), count: audit.duplicates.groups, show: () => duplicates(audit.duplicates) },
    { name: "leaks", title: tr("Leaks"), count: leaked, show: () => leaks(audit.leaks) },
    { name: "outliers", title: tr("Outliers"), count: audit.outliers.images, show: () => outliers(audit.outliers) },
    { name: "drift", title: tr("Drift"), count: checked ? audit.drift.alarms : null, show: () => drift(audit.drift) },
    { name: "coverage", title: tr("Coverage"), count: audit.coverage.thin, show: () => coverage(audit.coverage, audit.groups) },
  ];
}
