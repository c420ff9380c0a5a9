// The dialog in which a user logs in again, while the page keeps what it shows.

const CHANNEL = "cbir-login"; // on which the page after a login in another tab reports

/** Log in with a token; {csrf}, or {error} with the reason in words. */
async function logIn(token, { DONE, pageOf, csrfOf }) {
  const response = await fetch("/login", { method: "POST", body: new URLSearchParams({ token, next: DONE }) });
  const page = await pageOf(response);
  const csrf = csrfOf(page);
  return response.ok && csrf ? { csrf } : { error: page.getElementById("wrong")?.textContent };
}

/**
 * Ask the user to log in; resolves to what proves requests then, undefined if they cancel.
 *
 * page: functions of the page that asks. Imported, they would be a file of their own that every page waits for.
 */
export function askToLogIn(page) {
  const { html, nothing, render, tr, loadCsrf } = page;
  const tabs = new BroadcastChannel(CHANNEL);
  const place = document.body.appendChild(document.createElement("div"));
  const account = document.querySelector('meta[name="account-login"]')?.content; // the hospital's login, in another tab
  return new Promise((resolve) => {
    const end = (csrf) => {
      tabs.close();
      window.removeEventListener("focus", useOtherTab);
      place.remove();
      resolve(csrf);
    };
    const useOtherTab = async () => {
      const csrf = await loadCsrf().catch(() => undefined);
      if (csrf) end(csrf);
    };
    const submit = async (event) => {
      event.preventDefault();
      const { token } = event.target.elements;
      draw();
      const result = await logIn(token.value.trim(), page).catch(() => ({}));
      if (result.csrf) return end(result.csrf);
      draw(result.error ?? tr("The service does not respond. Try again."));
      token.select();
    };
    const draw = (error = "") => render(html`<dialog class="login-again" aria-labelledby="login-again" @close=${() => end()}><form class="login" @submit=${submit}>
      <h2 id="login-again">${tr("You are no longer logged in")}</h2><p class="hint">${tr("Log in to go on: what this page shows is kept.")}</p><p class="wrong" role="alert">${error || nothing}</p>
      <div class="field"><label for="login-token">${tr("Token")}</label><input id="login-token" name="token" type="password" autocomplete="current-password" required autofocus /></div>
      <p class="choices"><button class="button primary">${tr("Log in")}</button><button class="button" type="button" @click=${() => place.firstElementChild.close()}>${tr("Cancel")}</button>
        ${account ? html`<a class="button" href=${account} target="_blank">${tr("Log in with your hospital account")}</a>` : nothing}</p></form></dialog>`, place);
    tabs.addEventListener("message", useOtherTab);
    window.addEventListener("focus", useOtherTab); // back from a tab that ended on another page
    draw();
    place.firstElementChild.showModal();
  });
}
