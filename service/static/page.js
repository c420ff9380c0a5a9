// The page: what the reader does, and what is shown then.

import * as address from "./address.js";
import { column, element, ranks, skeleton, standIn } from "./answers.js";
import { Problem, record, render, search } from "./service.js";

const at = (id) => document.getElementById(id);
const LOOKED_THROUGH = 5; // times k: how far down the list before re-ranking moves are followed
const defaults = { rerank: at("rerank").value, k: at("k").value };

let query = null; // {image} of the collection, or {file, frame} of the reader
let lastFile = null; // kept for the way back
let shown = null; // {after, before, k}: the answers, those without re-ranking once they are there, how many
let running = new AbortController();
let pictureAddress = null;

function wanted() {
  const where = at("where").value.split(";").map((text) => text.trim()).filter(Boolean);
  return { k: Number(at("k").value), rerank: at("rerank").value, where };
}

function addressOf(image) {
  const { rerank, k, where } = wanted();
  return address.write({
    image,
    rerank: rerank === defaults.rerank ? "" : rerank,
    k: String(k) === defaults.k ? "" : k,
    where: where.join(";"),
  });
}

// Parts of the page

function showOnly(...ids) {
  for (const id of ["bar", "notes", "problem", "nothing", "start", "columns"]) at(id).hidden = !ids.includes(id);
}

function showPicture(source, words) {
  if (pictureAddress) URL.revokeObjectURL(pictureAddress);
  pictureAddress = source instanceof Blob ? URL.createObjectURL(source) : null;
  const picture = at("picture");
  picture.src = pictureAddress ?? source;
  picture.alt = words;
  picture.hidden = false;
  at("invitation").hidden = true;
}

function showNoPicture() {
  at("picture").hidden = true;
  at("picture").removeAttribute("src");
  at("caption").hidden = true;
  at("invitation").hidden = false;
}

function caption(text) {
  at("caption").textContent = text;
  at("caption").hidden = false;
}

function showProblem(error) {
  const [title, words] = at("problem").children;
  title.textContent = error instanceof Problem ? error.title : "The page met an error it did not expect";
  words.textContent = error instanceof Problem ? error.message : "Load the page again, and search once more.";
  at("columns").replaceChildren();
  showOnly("problem");
  at("status").textContent = "";
}

function showAnswers() {
  const { after, before, k } = shown;
  const compared = after.rerank.method !== "none";
  const view = compared ? document.querySelector("input[name=view]:checked").value : "alone";
  const columns = [];
  if (view === "alone") columns.push(column("Answers", after.results, null, addressOf));
  if (view === "before" || view === "both") {
    const earlier = before ? column("Before re-ranking", before.results.slice(0, k), null, addressOf) : skeleton(k);
    columns.push(earlier);
  }
  if (view === "after" || view === "both") {
    columns.push(column("After re-ranking", after.results, before && ranks(before.results), addressOf));
  }
  at("columns").classList.toggle("both", columns.length > 1);
  at("columns").replaceChildren(...columns);
  at("views").hidden = !compared;
  summarise(after);
  showOnly("bar", "columns", ...(after.rerank.notes.length ? ["notes"] : []));
}

function summarise(answer) {
  const times = answer.timings_ms;
  const stages = Object.entries(times).filter(([stage]) => stage !== "total");
  at("summary").replaceChildren(
    element("strong", "", `${answer.results.length} answers`),
    ` in ${times.total.toFixed(0)} ms`,
    element("span", "stages", stages.map(([stage, ms]) => `${stage} ${ms.toFixed(1)}`).join(" · ")),
  );
  at("notes").replaceChildren(...answer.rerank.notes.map((note) => element("li", "", note)));
}

function describe(facts) {
  const frame = facts.frame ? `, frame ${facts.frame}` : "";
  const what = query.image ? `Image ${query.image.slice(0, 8)} of the collection` : "Your image";
  caption(`${what} · ${facts.width} × ${facts.height} ${facts.format.toUpperCase()}${frame}`);
  at("frame-field").hidden = !(query.file && facts.frame);
}

// Searching

async function run() {
  if (!query || !at("query").reportValidity()) return;
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const asked = wanted();
  at("go").disabled = false;
  at("columns").classList.remove("both");
  at("columns").replaceChildren(skeleton(Math.min(asked.k, 20)));
  at("columns").setAttribute("aria-busy", "true");
  at("status").textContent = "Searching";
  showOnly("columns");
  try {
    const [after] = await Promise.all([search(query, asked, signal), picture(signal)]);
    describe(after.query);
    if (!after.results.length) {
      showNothing(asked);
      return;
    }
    shown = { after, before: null, k: asked.k };
    showAnswers();
    at("status").textContent = `${after.results.length} answers`;
    if (asked.rerank !== "none") await compare(asked, signal);
  } catch (error) {
    if (error.name !== "AbortError") showProblem(error);
  } finally {
    if (!signal.aborted) at("columns").removeAttribute("aria-busy");
  }
}

async function compare(asked, signal) {
  const most = Number(at("k").max);
  const k = Math.min(most, LOOKED_THROUGH * asked.k);
  shown.before = await search(query, { ...asked, k, rerank: "none" }, signal);
  showAnswers();
}

async function picture(signal) {
  if (query.file) {
    showPicture(await render(query, signal), "The query image");
    return;
  }
  const found = await record(query.image, signal);
  showPicture(found.links.thumbnail, `The query image, ${found.labels.label ?? "of the collection"}`);
}

function showNothing(asked) {
  at("nothing").lastElementChild.textContent = asked.where.length
    ? `No other image of the collection fits ${asked.where.join(" and ")}. Change the filter or leave it empty.`
    : "There is no other image in the collection. Index some, then search again.";
  showOnly("nothing");
  at("status").textContent = "No answers";
}

function searchFile(file) {
  const most = Number(at("query").dataset.maxUploadBytes);
  at("file").value = ""; // the same file may be chosen again
  at("frame").value = 1;
  history.pushState(null, "", address.write({}));
  query = lastFile = { file, frame: 1 };
  if (file.size > most) {
    showNoPicture();
    showProblem(new Problem("The image is too large", `At most ${Math.floor(most / 2 ** 20)} MiB are taken.`));
    return;
  }
  run();
}

function searchImage(image) {
  query = { image };
  history.pushState(null, "", addressOf(image));
  run();
}

/** Do what the address says: on loading, and when the reader goes back. */
function follow() {
  const asked = address.read();
  at("rerank").value = asked.rerank ?? defaults.rerank;
  if (!at("rerank").value) at("rerank").value = defaults.rerank;
  at("k").value = asked.k ?? defaults.k;
  at("where").value = asked.where ?? "";
  explain();
  query = asked.image ? { image: asked.image } : lastFile;
  if (query) {
    run();
    return;
  }
  running.abort();
  showNoPicture();
  at("go").disabled = true;
  showOnly("start");
}

// The reader's doing

function explain() {
  at("explanation").textContent = at("rerank").selectedOptions[0].dataset.explanation;
}

function again() {
  if (!query) return;
  if (query.image) history.replaceState(null, "", addressOf(query.image));
  else query.frame = Number(at("frame").value) || 1;
  run();
}

at("file").addEventListener("change", () => at("file").files.length && searchFile(at("file").files[0]));
at("rerank").addEventListener("change", () => {
  explain();
  again();
});
at("query").addEventListener("submit", (event) => {
  event.preventDefault();
  again();
});
at("views").addEventListener("change", () => shown && showAnswers());

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-image]");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  event.preventDefault();
  searchImage(link.dataset.image);
  scrollTo({ top: 0 });
});

for (const kind of ["dragenter", "dragover"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    at("drop").classList.add("over");
  });
}
document.addEventListener("dragleave", (event) => !event.relatedTarget && at("drop").classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  at("drop").classList.remove("over");
  if (event.dataTransfer.files.length) searchFile(event.dataTransfer.files[0]);
});

at("picture").addEventListener("error", () => {
  at("picture").hidden = true;
  caption("Picture no longer available");
});
addEventListener("popstate", follow);
for (const image of document.querySelectorAll(".examples img")) standIn(image);
follow();
