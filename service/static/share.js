// Copying the address of the current search.

import { copyText } from "./clipboard.js";
import { byId } from "./dom.js";
import { tr } from "./translate.js";

function showMessage(text) {
  byId("shared").textContent = text;
  byId("shared").hidden = false;
}

/** Hide the message about an earlier address. */
export function clear() {
  byId("shared").hidden = true;
}

/** Copy the address; hasFile: true if the query is a file or words of the user, which an address does not contain. */
export async function share(hasFile) {
  const copied = await copyText(location.href);
  const message = copied ? tr("Link copied.") : tr("The browser does not allow copying; copy the link from the address bar.");
  showMessage(hasFile ? `${message} ${tr("It contains the settings but not your image or words; send them separately.")}` : message);
}
