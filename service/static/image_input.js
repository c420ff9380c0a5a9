// Query images from the user: chosen, dropped, pasted, or dragged from the results.

import { ApiError } from "./api.js";
import { isOfSeries } from "./collection.js";
import { byId } from "./dom.js";
import { droppedFiles } from "./dropped_files.js";
import { InputError } from "./input_error.js";
import { readFiles } from "./read_files.js";
import { tr } from "./translate.js";

let reading = 0; // the latest choice of files; earlier ones that are still read do not matter

/** {image, collection} of a dragged link of this page, else null. */
function draggedImage(transfer) {
  const text = transfer.getData("text/uri-list").split("\n")[0];
  if (!URL.canParse(text)) return null;
  const address = new URL(text);
  if (address.origin !== location.origin || address.pathname !== "/" || !address.searchParams.get("image")) return null;
  return { image: address.searchParams.get("image"), collection: address.searchParams.get("collection") };
}

/** Call onQuery(query) for files, onImage({image, collection}) for an image of a collection, onError(error) for what cannot be read. */
export function install(onQuery, onImage, onError) {
  const highlight = (on) => byId("drop").classList.toggle("over", on);

  async function open(promisedFiles) {
    const number = ++reading;
    byId("status").textContent = tr("Reading files");
    try {
      const files = await promisedFiles;
      const maxBytes = Number(byId("query").dataset.maxUploadBytes);
      const query = await readFiles([...files], { ofSeries: isOfSeries(), maxBytes });
      if (number === reading) onQuery(query);
    } catch (error) {
      const known = error instanceof InputError;
      const other = new ApiError(tr("The files cannot be read"), tr("The browser cannot read them. Copy them to a local folder and try again."));
      if (number === reading) onError(known ? new ApiError(error.title, error.message) : error instanceof DOMException ? other : error);
    }
  }

  for (const id of ["file", "folder"]) {
    byId(id).addEventListener("change", () => {
      const files = [...byId(id).files].filter(({ name }) => !name.startsWith("."));
      if (files.length) open(files);
      byId(id).value = ""; // so that choosing the same file again is a change
    });
  }
  byId("choose-folder").addEventListener("click", () => byId("folder").click());
  for (const kind of ["dragenter", "dragover"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      highlight(true);
    });
  }
  document.addEventListener("dragleave", (event) => !event.relatedTarget && highlight(false));
  document.addEventListener("dragend", () => highlight(false));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    highlight(false);
    const image = draggedImage(event.dataTransfer); // a picture dragged from the page also carries its file
    if (image) onImage(image);
    else if (event.dataTransfer.files.length) open(droppedFiles(event.dataTransfer));
  });
  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return; // let the browser paste text
    event.preventDefault();
    open(files);
  });
}
