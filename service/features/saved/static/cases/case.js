// The page of a case: what its teaching file has, changing it, deleting it.

import { request } from "../api.js";
import { byId } from "../dom.js";
import "../theme.js";
import * as deleteCase from "./delete_case.js";
import { exportAddress } from "./export_address.js";

const { case: id } = byId("case").dataset;
const FORMATS = ["html", "pdf"];

const labelBoxes = () => [...(byId("label-keys")?.querySelectorAll("input") ?? [])];
const rankBoxes = () => [...document.querySelectorAll("[data-rank]")];

/** Show the chosen labels, and lead the links to the file once the user has looked. */
function update() {
  const keys = labelBoxes().filter((box) => box.checked).map((box) => box.value);
  const ranks = rankBoxes().filter((box) => box.checked).map((box) => box.dataset.rank);
  for (const line of document.querySelectorAll("[data-key]")) line.hidden = !keys.includes(line.dataset.key);
  for (const box of rankBoxes()) box.closest("li").classList.toggle("left-out", !box.checked);
  for (const box of labelBoxes()) box.disabled = !box.checked && keys.length >= Number(byId("label-keys").dataset.most);
  for (const format of FORMATS) {
    const link = byId(`export-${format}`);
    if (!link) continue; // PDF is not installed
    link.setAttribute("aria-disabled", String(!byId("checked").checked));
    if (byId("checked").checked) link.href = exportAddress(id, format, keys, ranks);
    else link.removeAttribute("href");
  }
}

async function change(event) {
  event.preventDefault();
  byId("problem").hidden = true;
  const body = JSON.stringify({
    title: byId("case-title").value,
    note: byId("case-note").value,
    shared: byId("case-shared").checked,
  });
  const headers = { "Content-Type": "application/json" };
  try {
    await request(`/v1/cases/${encodeURIComponent(id)}`, { method: "PATCH", headers, body });
    location.reload();
  } catch (error) {
    byId("problem").textContent = error.message;
    byId("problem").hidden = false;
  }
}

/** Choosing other contents takes the confirmation back: the user has not looked at them. */
function onContent() {
  byId("checked").checked = false;
  update();
}

byId("label-keys")?.addEventListener("change", onContent);
for (const box of rankBoxes()) box.addEventListener("change", onContent);
byId("checked").addEventListener("change", update);
byId("edit")?.addEventListener("submit", change);
byId("delete")?.addEventListener("click", () =>
  deleteCase.ask({ id, title: byId("title").textContent }, () => location.assign("/cases")),
);
if (byId("delete")) deleteCase.install();
update();
