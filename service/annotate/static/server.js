// What the page asks of its server.

/** Something went wrong; kind: "away", "busy" (later it may work), "login" or "refused". */
export class Trouble extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

// What shows the server that a request comes from its own page; there is none without a login.
const csrf = document.querySelector('meta[name="csrf"]')?.content;

/** The response; raises Trouble. */
export async function ask(address, options = {}) {
  let response;
  try {
    response = await fetch(address, csrf ? { ...options, headers: { ...options.headers, "X-CSRF-Token": csrf } } : options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble("away", "The server does not answer. What you judge is kept here and sent once it does.");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  const words = said.detail ?? `the server answered ${response.status}`;
  const later = response.status === 429 || response.status === 408 || response.status >= 500;
  const login = response.status === 401 || response.status === 403;
  throw new Trouble(later ? "busy" : login ? "login" : "refused", `${words.charAt(0).toUpperCase()}${words.slice(1)}.`);
}

/** Send JSON, get JSON. */
export async function send(address, body) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return (await ask(address, options)).json();
}
