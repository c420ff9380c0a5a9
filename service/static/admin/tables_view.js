// The sections "Collections", "Requests" and "Settings".

import { byId, element } from "../dom.js";
import { number, tr } from "../translate.js";
import { requestTable } from "./figures.js";
import { showItems, showRows } from "./keyed_rows.js";
import { partState, size, time } from "./words.js";

function collectionCells({ name, folder, state, info, changed }) {
  const title = folder ? tr("{name} (folder {folder})", { name, folder }) : name;
  if (!info) return [title, partState(state), "", "", "", "", "", ""];
  return [title, partState(state), number(info.images), size(info.bytes_on_disk), info.profile, info.descriptor, number(info.generation), time(changed)];
}

/** Show the collections. */
export function showCollections(items) {
  showRows(byId("collections"), items, ({ name }) => name, collectionCells, { numbers: [2, 3, 6] });
}

function columnTitle({ action, method, outcome }) {
  if (outcome === "refused") return tr("refused");
  if (outcome === "failed") return tr("failed");
  return method ? tr("{action}, {method}", { action, method }) : action;
}

/** Show the numbers of requests by day. */
export function showRequests(items) {
  const { columns, rows } = requestTable(items);
  const titles = [tr("Day"), ...columns.map(columnTitle)];
  const build = () => element("tr", "", ...titles.map((title, index) => header(title, index > 0)));
  showItems(byId("requests-head"), rows.length ? [titles] : [], (row) => row.join("\n"), build, () => {});
  const key = ({ day }) => `${day} ${titles.length}`; // a new column makes new rows
  const numbers = titles.map((_, index) => index).slice(1);
  showRows(byId("requests"), rows, key, ({ day, counts }) => [day, ...counts.map((count) => number(count))], { numbers });
}

function header(title, isNumber) {
  const cell = element("th", isNumber ? "number" : "", title);
  cell.scope = "col";
  return cell;
}

/** Show the settings: those that differ from their defaults, or all. */
export function showSettings(items) {
  const shown = byId("default-settings").checked ? items : items.filter(({ origin }) => origin !== "default");
  showRows(byId("settings"), shown, ({ name }) => name, ({ name, value, origin, description }) => [name, value, origin, description]);
  byId("no-settings").hidden = shown.length > 0;
}
