// The other studies of the query's patient, below the query.

import { fetchJson, imageAddress } from "./api.js";
import { card } from "./card.js";
import { addPart, state, update } from "./page_state.js";
import { openComparison } from "./search/query_viewer.js";
import { addressOf, collectionName, showError } from "./search/run.js";
import { sendSearch } from "./search/send_search.js";
import { tr, trn } from "./translate.js";
import { html, nothing } from "./vendor/lit.js";

const MOST = 24; // images of a file's patient
const STUDIES = 10;
const IMAGES = 6; // of a study

/**
 * Load the studies of the patient of an image of the collection. The service counts how many patients a caller asks for by
 * file, so those of a DICOM file are loaded on demand.
 */
async function answer(received, { query, signal } = {}) {
  if (state.priors?.query === query) return;
  update({ priors: null });
  if (!received || query.text || query.files) return;
  if (!query.image) return received.query.format === "dicom" && update({ priors: { query, studies: null } });
  try {
    const { studies, total } = await fetchJson(imageAddress(collectionName(), query.image, "/priors", { limit: STUDIES, images: IMAGES }), { signal });
    if (!signal.aborted && total) update({ priors: { query, studies, total } });
  } catch {
    // results are useful without earlier studies
  }
}

async function loadOfFile({ target }) {
  const { query, studies } = state.priors;
  if (!target.open || studies) return;
  const k = Math.min(state.facts.max_results, MOST);
  try {
    const { results } = await sendSearch(query, { k, rerank: "none", include: ["cards"], same_patient: true }, { collection: collectionName() });
    if (state.priors?.query === query) update({ priors: { query, studies: [{ images: results }], total: results.length } });
  } catch (error) {
    showError(error);
  }
}

/** How long before the query's study another one was made. */
function timeOf(days) {
  if (days === undefined) return "";
  if (days === null) return tr("Time unknown");
  if (days === 0) return tr("On the same day");
  return days < 0 ? trn("{count} day later", "{count} days later", -days) : trn("{count} day earlier", "{count} days earlier", days);
}

function study({ days_before: days, same_view: sameView, compare, images }) {
  const facts = [timeOf(days), sameView ? tr("same view") : ""].filter(Boolean).join(" · ");
  const hits = images.map((image, index) => ({ ...image, rank: index + 1 }));
  const actions = { open: (hit) => openComparison(hit, hits) };
  return html`<h3>${facts}${compare ? html` <a href=${compare} target="_blank" rel="noopener noreferrer" title=${tr("Side by side in the viewer")}>${tr("Side by side")} ↗</a>` : nothing}</h3>
    <ul class="strip" role="list" aria-label=${facts || tr("Same patient")}>${hits.map((image) => html`<li>${card(image, { href: addressOf({ image: image.image_id }), actions })}</li>`)}</ul>`;
}

function panels({ priors, query }) {
  if (!priors || priors.query !== query) return nothing;
  const { studies, total } = priors;
  return html`<details class="panel" id="priors" ?open=${Boolean(query.image)} @toggle=${loadOfFile}>
    <summary>${studies ? tr("Other studies of this patient ({count})", { count: total }) : tr("Other studies of this patient")}</summary>
    ${studies ? (total ? studies.map(study) : tr("The collection has no other study of this patient.")) : nothing}
  </details>`;
}

addPart({ answer, panels });
