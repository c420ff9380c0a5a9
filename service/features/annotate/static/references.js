// Reference images beside the pictures to judge; each opens large.

import { byId } from "/static/dom.js";
import { remember, remembered } from "/static/theme.js";
import { openPictures } from "./picture_dialog.js";

const ROOM = "(min-width: 900px)"; // where they fit beside the pictures
const KEY = "references";

/** Let the button show and hide them. onOpen() and onClose() frame a large view. Returns the function that switches. */
export function installReferences(onOpen, onClose) {
  const strip = byId("references");
  if (!strip) return () => {};
  const buttons = [...strip.querySelectorAll("[data-image]")];
  const pictures = buttons.map((button) => ({ id: button.dataset.image, caption: button.textContent.trim() }));
  const show = (isShown) => {
    strip.hidden = !isShown;
    byId("references-switch").setAttribute("aria-expanded", isShown);
  };
  const toggle = () => {
    show(strip.hidden);
    if (!strip.hidden) strip.scrollIntoView({ block: "nearest" });
    remember(KEY, strip.hidden ? "off" : "on");
  };
  buttons.forEach((button, position) =>
    button.addEventListener("click", () => {
      onOpen();
      openPictures(pictures.map((picture) => [picture]), position).then(onClose);
    }),
  );
  byId("references-switch").addEventListener("click", toggle);
  const stored = remembered(KEY);
  show(stored ? stored === "on" : matchMedia(ROOM).matches);
  return toggle;
}
