// The dialog in which a user logs in again, while the page keeps what it shows.

const CHANNEL = "cbir-login"; // on which the page after a login in another tab reports

/**
 * Ask the user to log in; resolves to what proves requests then, undefined if they cancel.
 *
 * page: functions of the page that asks. Imported, they would be a file of their own that every page waits for.
 */
export async function askToLogIn({ ask, html, nothing, tr, DONE, pageOf, csrfOf, loadCsrf }) {
  const tabs = new BroadcastChannel(CHANNEL);
  const account = document.querySelector('meta[name="account-login"]')?.content; // the hospital's login, in another tab
  let csrf;
  const act = async (fields) => {
    const body = new URLSearchParams({ token: fields.get("token").trim(), next: DONE });
    const response = await fetch("/login", { method: "POST", body }).catch(() => null);
    const page = response && (await pageOf(response));
    const found = response?.ok ? csrfOf(page) : undefined;
    if (found) csrf = found;
    else throw new Error(page?.getElementById("wrong")?.textContent ?? tr("The service does not respond. Try again."));
  };
  const useOtherTab = async () => {
    csrf = await loadCsrf().catch(() => undefined);
    if (csrf) document.getElementById("login-dialog")?.close();
  };
  tabs.addEventListener("message", useOtherTab);
  window.addEventListener("focus", useOtherTab); // back from a tab that ended on another page
  await ask({
    id: "login",
    title: tr("You are no longer logged in"),
    body: html`<p class="hint">${tr("Log in to go on: what this page shows is kept.")}</p>
      <div class="field"><label for="login-token">${tr("Token")}</label><input id="login-token" name="token" type="password" autocomplete="current-password" required autofocus /></div>
      ${account ? html`<p><a class="button" href=${account} target="_blank">${tr("Log in with your hospital account")}</a></p>` : nothing}`,
    confirm: tr("Log in"),
    act,
  });
  tabs.close();
  window.removeEventListener("focus", useOtherTab);
  return csrf;
}
