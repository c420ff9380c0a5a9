// The ways an image comes in: chosen, dropped, pasted, dragged from the answers.

const at = (id) => document.getElementById(id);

/** {image, collection} that a dragged link of this page leads to. */
function imageOf(transfer) {
  const text = transfer.getData("text/uri-list").split("\n")[0];
  if (!URL.canParse(text)) return null;
  const address = new URL(text);
  if (address.origin !== location.origin || address.pathname !== "/" || !address.searchParams.get("image")) return null;
  return { image: address.searchParams.get("image"), collection: address.searchParams.get("collection") };
}

/** Call `file` with a file that comes in, `image` with {image, collection}. */
export function install(file, image) {
  const input = at("file");
  const over = (is) => at("drop").classList.toggle("over", is);

  input.addEventListener("change", () => {
    const [chosen] = input.files;
    if (!chosen) return;
    file(chosen);
    input.value = ""; // the same file may be chosen again
  });
  for (const kind of ["dragenter", "dragover"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      over(true);
    });
  }
  document.addEventListener("dragleave", (event) => !event.relatedTarget && over(false));
  document.addEventListener("dragend", () => over(false));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    over(false);
    const [dropped] = event.dataTransfer.files;
    const known = imageOf(event.dataTransfer); // dragging a picture of the page brings its file along
    if (known) image(known);
    else if (dropped) file(dropped);
  });
  document.addEventListener("paste", (event) => {
    const [pasted] = event.clipboardData?.files ?? [];
    if (!pasted) return; // text goes where the caret is
    event.preventDefault();
    file(pasted);
  });
}
