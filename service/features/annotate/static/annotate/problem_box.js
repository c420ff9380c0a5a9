// What went wrong, above the pictures.

import { tr } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";

export function problemBox({ problem }) {
  if (!problem) return nothing;
  const { remedy, title, message } = problem;
  const next = new URLSearchParams({ next: location.pathname + location.search });
  return html`<section class="state problem" id="problem" role="alert"><h2>${title}</h2><p>${message}</p>
    ${remedy === "login" ? html`<a class="button" href=${`/login?${next}`}>${tr("Log in")}</a>` : nothing}</section>`;
}
