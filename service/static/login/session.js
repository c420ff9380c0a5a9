// The login of a page: proves its requests, and goes on with a new login when one has ended.

import { ask } from "../dialog.js";
import { tr } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";

const DONE = "/login/done"; // the page after a login

export class Session {
  #csrf;
  #asking = null;
  #load;
  #ask;

  /**
   * csrf: proves that a request comes from this page; undefined without a login. load(): the value of the login that the
   * browser has now, undefined if there is none. ask(): have the user log in; the new value, undefined if they do not.
   */
  constructor(csrf, load, ask) {
    this.#csrf = csrf;
    this.#load = load;
    this.#ask = ask;
  }

  get headers() {
    return this.#csrf ? { "X-CSRF-Token": this.#csrf } : {};
  }

  /** Send a request as `fetch` does; if the login has ended and the user logs in again, send it once more. */
  async fetch(address, options = {}) {
    const sent = this.#csrf;
    const response = await this.#send(address, options);
    return (await this.#isRenewed(response.status, sent)) ? this.#send(address, options) : response;
  }

  #send(address, options) {
    return send(address, { ...options, headers: { ...options.headers, ...this.headers } });
  }

  /** Whether a request that was refused with `status` may succeed now, since there is another login than `sent`. */
  async #isRenewed(status, sent) {
    if (!sent || (status !== 401 && status !== 403)) return false;
    if (sent !== this.#csrf) return true; // meanwhile, for another request
    const asked = () => (this.#asking ??= this.#ask().finally(() => (this.#asking = null))); // once for all requests
    const csrf = await (status === 401 ? asked() : this.#load()); // 403: another tab has logged in again
    this.#csrf = csrf ?? this.#csrf;
    return this.#csrf !== sent;
  }
}

/** Send a request as `fetch` does; onProgress(share): called while its body is sent, which `fetch` does not tell. */
const send = (address, { onProgress, ...options }) => (onProgress ? sendWithProgress(address, options, onProgress) : fetch(address, options));

function sendWithProgress(address, { method, headers, body, signal }, onProgress) {
  return new Promise((resolve, reject) => {
    const sent = new XMLHttpRequest();
    const abort = () => sent.abort();
    sent.open(method, address);
    sent.responseType = "blob";
    for (const [name, value] of Object.entries(headers)) sent.setRequestHeader(name, value);
    sent.upload.addEventListener("progress", ({ loaded, total }) => onProgress(total ? loaded / total : 0));
    sent.addEventListener("load", () => resolve(new Response(sent.response, { status: sent.status, headers: headersOf(sent) })));
    sent.addEventListener("error", () => reject(new TypeError("no response")));
    sent.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
    sent.addEventListener("loadend", () => signal?.removeEventListener("abort", abort));
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) return reject(new DOMException("aborted", "AbortError"));
    sent.send(body);
  });
}

const headersOf = (sent) => sent.getAllResponseHeaders().trim().split(/[\r\n]+/).filter(Boolean).map((line) => line.split(/: ?(.*)/s, 2));

/** What proves that a request comes from `page`; undefined without a login. */
const csrfOf = (page) => page.querySelector('meta[name="csrf"]')?.content;

/** The page of an answer to a login, whose text holds the result. */
const pageOf = async (response) => new DOMParser().parseFromString(await response.text(), "text/html");

const loadCsrf = async () => csrfOf(await pageOf(await fetch(DONE)));

/** Ask the user to log in, by a dialog that is loaded when it is needed. */
const askToLogIn = async () => (await import("./login_dialog.js")).askToLogIn({ ask, html, nothing, tr, DONE, pageOf, csrfOf, loadCsrf });

export const session = new Session(csrfOf(document), loadCsrf, askToLogIn);
