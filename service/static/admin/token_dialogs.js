// The dialogs that create a token, show it once, and confirm what cannot be undone.

import { copyText } from "../clipboard.js";
import { byId } from "../dom.js";
import { tr } from "../translate.js";
import { tokenRequest } from "./figures.js";

for (const button of document.querySelectorAll("[data-close]")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}

const checked = (form, name) => [...form.querySelectorAll(`input[name=${name}]:checked`)].map(({ value }) => value);

/** Open the dialog that creates a token. */
export function openCreation() {
  byId("token-form").reset();
  byId("token-error").textContent = "";
  byId("token-dialog").showModal();
}

/** Let the dialog create tokens: send(request) resolves to the new token. */
export function installCreation(send) {
  const form = byId("token-form");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const request = tokenRequest({
      name: byId("token-name").value,
      scopes: checked(form, "scope"),
      expires: byId("token-expires").value,
      collections: checked(form, "collection"),
      where: byId("token-where").value,
    });
    try {
      const { token } = await send(request);
      byId("token-dialog").close();
      showToken(token);
    } catch (error) {
      byId("token-error").textContent = error.message;
    }
  });
}

function showToken(token) {
  byId("created-token").textContent = token;
  byId("copied").textContent = "";
  const forget = () => (byId("created-token").textContent = "");
  byId("created-dialog").addEventListener("close", forget, { once: true });
  byId("copy-token").onclick = async () => {
    byId("copied").textContent = (await copyText(token)) ? tr("Copied") : tr("Select the text and copy it.");
  };
  byId("created-dialog").showModal();
}

/** Ask the user, who may also choose `choice`; resolves to "" if they do not agree, else to "yes" or "chosen". */
export function confirmed(title, text, yes, choice = "") {
  const dialog = byId("confirm-dialog");
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-yes").textContent = yes;
  byId("confirm-choice").hidden = !choice;
  byId("confirm-chosen").checked = false;
  byId("confirm-choice-text").textContent = choice || "";
  dialog.returnValue = "";
  byId("confirm-yes").onclick = () => dialog.close(byId("confirm-chosen").checked ? "chosen" : "yes");
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true }));
}
