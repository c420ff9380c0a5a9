// The instructions of the study: shown before the first item, and again on request.

import { byId } from "/static/dom.js";
import { remember, remembered } from "/static/theme.js";

const dialog = byId("instructions");

/** Open the instructions if this browser has not shown this version of them, and wait until they are closed. */
export async function showNewInstructions() {
  if (!dialog) return;
  const key = `instructions:${byId("judging").dataset.study}`;
  if (remembered(key) === dialog.dataset.version) return;
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  remember(key, dialog.dataset.version);
}

/** Let the button open them. onOpen() and onClose() frame the time of reading. Returns the function that opens them. */
export function installInstructions(onOpen, onClose) {
  if (!dialog) return () => {};
  const open = () => {
    onOpen();
    dialog.showModal();
    dialog.addEventListener("close", onClose, { once: true });
  };
  byId("instructions-open").addEventListener("click", open);
  return open;
}
