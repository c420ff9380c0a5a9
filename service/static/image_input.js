// Query images from the user: chosen, dropped, pasted, or dragged from the results.

import { byId } from "./dom.js";

/** {image, collection} of a dragged link of this page, else null. */
function draggedImage(transfer) {
  const text = transfer.getData("text/uri-list").split("\n")[0];
  if (!URL.canParse(text)) return null;
  const address = new URL(text);
  if (address.origin !== location.origin || address.pathname !== "/" || !address.searchParams.get("image")) return null;
  return { image: address.searchParams.get("image"), collection: address.searchParams.get("collection") };
}

/** Call onFile(file) for a file, onImage({image, collection}) for an image of a collection. */
export function install(onFile, onImage) {
  const input = byId("file");
  const highlight = (on) => byId("drop").classList.toggle("over", on);

  input.addEventListener("change", () => {
    const [file] = input.files;
    if (!file) return;
    onFile(file);
    input.value = ""; // so that choosing the same file again is a change
  });
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
    const [file] = event.dataTransfer.files;
    const image = draggedImage(event.dataTransfer); // a picture dragged from the page also carries its file
    if (image) onImage(image);
    else if (file) onFile(file);
  });
  document.addEventListener("paste", (event) => {
    const [file] = event.clipboardData?.files ?? [];
    if (!file) return; // let the browser paste text
    event.preventDefault();
    onFile(file);
  });
}
