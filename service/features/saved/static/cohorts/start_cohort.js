// The dialog that begins a cohort with images that the search page or Browse has chosen, and the way to it from judged results.

import { addressIn, fetchJson, imageAddress, jsonBody } from "../api.js";
import { ask } from "../dialog.js";
import { pageAddress, sharing } from "../saved/own.js";
import { tr, trn } from "../translate.js";
import { html } from "../vendor/lit.js";

const SHOWN = 8; // pictures of images that a cohort begins with
export const MOST = 1000; // images of a request

/** Ask for the title of a cohort that begins with {collection, relevant, irrelevant, where}, and open its page. */
export function openCohorts({ collection, relevant, irrelevant, where }) {
  const film = (id) => html`<li class="film"><img src=${imageAddress(collection, id, "/thumbnail")} alt="" /></li>`;
  const body = html`<p class="hint">${trn("Begins with {count} image that belongs.", "Begins with {count} images that belong.", relevant.length)} ${irrelevant.length ? trn("{count} does not belong.", "{count} do not belong.", irrelevant.length) : ""}</p>
    <ul class="begin-images" role="list">${relevant.slice(0, SHOWN).map(film)}</ul>
    <div class="field"><label for="begin-title">${tr("Title of the cohort")}</label><input type="text" id="begin-title" name="title" maxlength="200" required autocomplete="off" autofocus /></div>
    ${sharing(false, "begin-shared")}`;
  const act = async (fields) => {
    const { id } = await fetchJson(addressIn("", "cohorts", { collection }), jsonBody({ title: fields.get("title"), shared: fields.has("shared"), relevant, irrelevant, where }));
    location.assign(pageAddress("cohorts", id));
  };
  return ask({ id: "begin", title: tr("Find all of these"), body, confirm: tr("Begin"), act });
}

/** The images that a cohort begins with: the query, if it is one of the collection, and the judged results. */
function startOf({ query, marks, facts: { collection }, settings: { where } }) {
  const judgedAs = (sign) => [...marks].filter(([, value]) => value === sign).map(([id]) => id);
  const [relevant, irrelevant] = [judgedAs(1), judgedAs(-1)];
  const isExample = query?.image && !query.region && !irrelevant.includes(query.image);
  return { collection, where, relevant: isExample ? [...new Set([query.image, ...relevant])] : relevant, irrelevant };
}

export function cohortButton(now) {
  const start = startOf(now);
  return html`<button class="button" type="button" id="find-all" ?disabled=${!start.relevant.length} @click=${() => openCohorts(start)}>${tr("Find all of these …")}</button>`;
}
