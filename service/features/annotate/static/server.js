// Requests to the annotation server.

import { ApiError } from "/static/api.js";
import { session } from "/static/login/page_session.js";
import { tr } from "/static/translate.js";

const OFFLINE = tr("Your answers are stored in this browser and sent when the server responds again.");

/** A failed request; kind: "offline", "busy" (may work later), "login" or "refused". */
export class RequestError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

/** Send a request and return the response; throws RequestError. */
export async function request(address, options = {}) {
  let response;
  try {
    response = await session.fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("offline", OFFLINE);
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  const text = problem.detail ?? tr("the server responded with status {status}", { status: String(response.status) });
  const temporary = response.status === 429 || response.status === 408 || response.status >= 500;
  const login = response.status === 401 || response.status === 403;
  const kind = temporary ? "busy" : login ? "login" : "refused";
  throw new RequestError(kind, `${text.charAt(0).toUpperCase()}${text.slice(1)}.`);
}

/** The error of a viewer's picture as one of these requests; others stay as they are. */
export function toRequestError(error) {
  if (!(error instanceof ApiError)) return error;
  if (error.status === 0) return new RequestError("offline", OFFLINE);
  const isLogin = [401, 403].includes(error.status);
  return new RequestError(isLogin ? "login" : error.temporary ? "busy" : "refused", error.message);
}

/** Post JSON and return the JSON of the response. */
export async function postJson(address, body) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return (await request(address, options)).json();
}
