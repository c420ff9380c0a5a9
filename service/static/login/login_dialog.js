// The dialog in which a user logs in again, while the page keeps what it shows.

import { element } from "../dom.js";
import { tr } from "../translate.js";
import { loadCsrf, logIn } from "./login_requests.js";

const CHANNEL = "cbir-login"; // on which the page after a login in another tab reports

/** Ask the user to log in; resolves to what proves requests then, undefined if they cancel. */
export function askToLogIn() {
  const { dialog, form, token, error } = build();
  const tabs = new BroadcastChannel(CHANNEL);
  return new Promise((resolve) => {
    const end = (csrf) => {
      tabs.close();
      window.removeEventListener("focus", useOtherTab);
      dialog.remove();
      resolve(csrf);
    };
    const useOtherTab = async () => {
      const csrf = await loadCsrf().catch(() => undefined);
      if (csrf) end(csrf);
    };
    tabs.addEventListener("message", useOtherTab);
    window.addEventListener("focus", useOtherTab); // back from a tab that ended on another page
    dialog.addEventListener("close", () => end(undefined));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      error.textContent = "";
      const result = await logIn(token.value.trim()).catch(() => ({}));
      if (result.csrf) return end(result.csrf);
      error.textContent = result.error ?? tr("The service does not respond. Try again.");
      token.select();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function build() {
  const title = element("h2", "", tr("You are no longer logged in"));
  title.id = "login-again";
  const error = element("p", "wrong");
  error.setAttribute("role", "alert");
  const token = tokenInput();
  const label = element("label", "", tr("Token"));
  label.htmlFor = token.id;
  const cancel = element("button", "button", tr("Cancel"));
  cancel.type = "button";
  const choices = element("p", "choices", element("button", "button primary", tr("Log in")), cancel, ...accountLink());
  const hint = element("p", "hint", tr("Log in to go on: what this page shows is kept."));
  const form = element("form", "login", title, hint, error, element("div", "field", label, token), choices);
  const dialog = element("dialog", "login-again", form);
  dialog.setAttribute("aria-labelledby", title.id);
  cancel.addEventListener("click", () => dialog.close());
  return { dialog, form, token, error };
}

function tokenInput() {
  const token = element("input");
  Object.assign(token, { id: "login-token", type: "password", autocomplete: "current-password", required: true, autofocus: true });
  return token;
}

/** The link to the hospital's login, which is in another tab; nothing if there is no such login. */
function accountLink() {
  const address = document.querySelector('meta[name="account-login"]')?.content;
  if (!address) return [];
  const link = element("a", "button", tr("Log in with your hospital account"));
  Object.assign(link, { href: address, target: "_blank" });
  return [link];
}
