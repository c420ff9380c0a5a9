// Saving the results that are shown as a file, and printing them.

import { toCsv, toJson, toUids } from "./answer_files.js";
import { renderSheet } from "./answer_sheet.js";
import { byId, element } from "./dom.js";
import { withMembers } from "./group_members.js";
import { pictureSource } from "./query_source.js";
import { selectedView } from "./search_params.js";
import { state } from "./search_state.js";
import { tr } from "./translate.js";

const MAX_SIDE = 384; // pixels of a picture in a sheet
const RELEASE_MS = 60_000; // until when a browser has read the file

/** The answer that is shown, and its results in their order. */
function shownAnswer() {
  const { after, before, params } = state.shown;
  const answer = selectedView() === "before" && before ? before : after;
  return { answer, results: withMembers(answer.results.slice(0, params.k)) };
}

function save(name, type, text) {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), RELEASE_MS);
}

/** The picture at an address as a data URL, null if it cannot be loaded. */
async function dataUrl(address) {
  const image = new Image();
  image.src = address;
  try {
    await image.decode();
  } catch {
    return null;
  }
  const scale = Math.min(1, MAX_SIDE / Math.max(image.naturalWidth, image.naturalHeight));
  const canvas = element("canvas");
  canvas.width = Math.max(1, Math.round(image.naturalWidth * scale));
  canvas.height = Math.max(1, Math.round(image.naturalHeight * scale));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.9);
}

async function saveSheet() {
  const { answer, results } = shownAnswer();
  const source = await pictureSource();
  const query = { caption: byId("caption").textContent, data: source === null ? null : await dataUrl(source ?? "") };
  const pictures = await Promise.all(results.map((hit) => dataUrl(hit.links.thumbnail)));
  save("results.html", "text/html", renderSheet({ note: tr("Re-ranking: {method}", answer.rerank), query, results, pictures }));
}

async function printResults() {
  const images = [...byId("columns").querySelectorAll("img")];
  for (const image of images) image.loading = "eager"; // those out of sight have not been loaded
  await Promise.all(images.map((image) => image.decode().catch(() => {})));
  print();
}

const ACTIONS = {
  csv: () => save("results.csv", "text/csv", toCsv(shownAnswer().results)),
  json: () => {
    const { answer, results } = shownAnswer();
    save("results.json", "application/json", toJson(answer, results));
  },
  uids: () => save("dicom-uids.csv", "text/csv", toUids(shownAnswer().results)),
  sheet: saveSheet,
  print: printResults,
};

/** Connect the menu; it closes when an action is chosen, by Escape, and when the user clicks elsewhere. */
export function install() {
  const menu = byId("take-away");
  menu.addEventListener("toggle", () => {
    if (menu.open) byId("save-uids").hidden = !shownAnswer().results.some((hit) => hit.dicom);
  });
  menu.addEventListener("click", (event) => {
    const action = event.target.closest("[data-save]")?.dataset.save;
    if (!action) return;
    close();
    ACTIONS[action]();
  });
  menu.addEventListener("keydown", (event) => event.key === "Escape" && menu.open && close());
  document.addEventListener("click", (event) => menu.contains(event.target) || (menu.open = false));

  function close() {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
}
