// The dialogs that create a token, show it once, and confirm what cannot be undone.

import { byId, copyText } from "../theme.js";

/** Open the dialog that creates a token. */
export function openCreation() {
  byId("token-form").reset();
  byId("token-error").textContent = "";
  byId("token-dialog").showModal();
}

/** The body of a request for a token from the fields of the form. */
export function tokenRequest(fields) {
  const text = (name) => fields.get(name).trim();
  const where = text("where").split(",").map((condition) => condition.trim()).filter(Boolean);
  return { scopes: fields.getAll("scope"), name: text("name"), expires: text("expires") || null, collections: fields.getAll("collection"), where };
}

/** Let the dialog create tokens: send(request) resolves to the new token. */
export function installCreation(send) {
  byId("token-form").addEventListener("submit", async (event) => {
    if (event.submitter?.formMethod === "dialog") return; // cancelled
    event.preventDefault();
    try {
      const { token } = await send(tokenRequest(new FormData(event.target)));
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
  byId("created-dialog").addEventListener("close", () => (byId("created-token").textContent = ""), { once: true });
  byId("copy-token").onclick = async () => {
    byId("copied").textContent = (await copyText(token)) ? "Copied" : "Select the text and copy it.";
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
  byId("confirm-choice-text").textContent = choice;
  dialog.returnValue = "";
  dialog.showModal();
  const answer = () => dialog.returnValue && (byId("confirm-chosen").checked ? "chosen" : "yes");
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(answer()), { once: true }));
}
