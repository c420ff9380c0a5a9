// Other hospitals: the switch, and what each site has contributed.

import { addPart, state } from "./page_state.js";
import { run } from "./search/run.js";
import { tr, trn } from "./translate.js";
import { html, nothing } from "./vendor/lit.js";

let asked = false; // no address of the page turns it on: a link must not send anything there

const sites = ({ facts }) => facts.parts.federation?.sites ?? [];

const searchFields = (now) => (asked && sites(now).length && !now.query.text ? { federated: true, rerank: "none", parameters: undefined } : {});

function choose({ target }) {
  asked = target.checked;
  if (state.query) run();
}

function options(now) {
  if (!sites(now).length) return nothing;
  return html`<label class="pill check" for="federated" title=${tr("Sends the vector of the image to: {sites}", { sites: sites(now).join(", ") })}><input type="checkbox" id="federated" .checked=${asked} @change=${choose} /> ${tr("Other hospitals")}</label>`;
}

function siteNote(report) {
  const site = report.name ?? tr("This hospital");
  if (report.problem) return tr("{site} gave no answer: {problem}", { site, problem: report.problem });
  const share = trn("{site}: {count} result", "{site}: {count} results", report.results, { site });
  const among = trn("{count} image searched", "{count} images searched", report.images);
  return [`${share}, ${among}`, ...report.notes].join(". ");
}

const results = ({ answer }) => (answer?.sites ? html`<ul class="notes" id="sites">${answer.sites.map((report) => html`<li>${siteNote(report)}</li>`)}</ul>` : nothing);

const overCard = (hit) => (hit.site ? html`<span class="slice site">${hit.site}</span>` : nothing);

addPart({ searchFields, options, results, overCard });
