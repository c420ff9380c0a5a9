// Requests of a login. They go to pages, whose text holds the result.

const DONE = "/login/done"; // the page after a login

/** What proves that a request comes from `page`; undefined without a login. */
export function csrfOf(page) {
  return page.querySelector('meta[name="csrf"]')?.content;
}

async function parsed(response) {
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

/** The value that proves requests with the login that the browser has now; undefined if there is none. */
export async function loadCsrf() {
  return csrfOf(await parsed(await fetch(DONE)));
}

/** Log in with a token; {csrf}, or {error} with the reason in words. */
export async function logIn(token) {
  const response = await fetch("/login", { method: "POST", body: new URLSearchParams({ token, next: DONE }) });
  const page = await parsed(response);
  const csrf = csrfOf(page);
  return response.ok && csrf ? { csrf } : { error: page.getElementById("wrong")?.textContent };
}
