// The dialog that begins a cohort with images that the search page or Browse has chosen, and the way to it from judged results.

import { addressIn, fetchJson, imageAddress, jsonBody } from "../api.js";
import { pageAddress } from "../saved/own.js";
import { tr } from "../translate.js";
import { html, nothing, render } from "../vendor/lit.js";

const SHOWN = 8; // pictures of images that a cohort begins with
export const MOST = 1000; // images of a request

let place = null;

function draw(start, { problem = "", busy = false } = {}) {
  const { collection, relevant, irrelevant, where } = start;
  const begin = async (event) => {
    event.preventDefault();
    const { title, shared } = event.target.elements;
    draw(start, { busy: true });
    try {
      const { id } = await fetchJson(addressIn("", "cohorts", { collection }), jsonBody({ title: title.value, shared: shared.checked, relevant, irrelevant, where }));
      location.assign(pageAddress("cohorts", id));
    } catch (error) {
      draw(start, { problem: error.message });
    }
  };
  const film = (id) => html`<li class="film"><img src=${imageAddress(collection, id, "/thumbnail")} alt="" /></li>`;
  render(html`<dialog class="help" id="begin" aria-labelledby="begin-heading"><form class="case-form" @submit=${begin}>
    <h2 id="begin-heading">${tr("Find all of these")}</h2>
    <p class="hint">${tr("Begins with {relevant} images that belong and {others} that do not.", { relevant: relevant.length, others: irrelevant.length })}</p>
    <ul class="begin-images" role="list">${relevant.slice(0, SHOWN).map(film)}</ul>
    <div class="field"><label for="begin-title">${tr("Title of the cohort")}</label><input type="text" id="begin-title" name="title" maxlength="200" required autocomplete="off" autofocus /></div>
    <label class="check" for="begin-shared"><input type="checkbox" id="begin-shared" name="shared" /> ${tr("Others who may use the collection can see it")}</label>
    ${problem ? html`<p class="problem" role="alert">${problem}</p>` : nothing}
    <div class="buttons">
      <button class="button primary" type="submit" id="begin-confirm" ?disabled=${busy}>${tr("Begin")}</button>
      <button class="button" type="button" @click=${({ target }) => target.closest("dialog").close()}>${tr("Cancel")}</button>
    </div></form></dialog>`, place);
}

/** Ask for the title of a cohort that begins with {collection, relevant, irrelevant, where}, and open its page. */
export function openCohorts(start) {
  place ??= document.body.appendChild(document.createElement("div"));
  draw(start);
  place.firstElementChild.showModal();
}

/** The images that a cohort begins with: the query, if it is one of the collection, and the judged results. */
function startOf({ query, marks, facts: { collection }, settings: { where } }) {
  const judgedAs = (sign) => [...marks].filter(([, value]) => value === sign).map(([id]) => id);
  const [relevant, irrelevant] = [judgedAs(1), judgedAs(-1)];
  const isExample = query?.image && !query.region && !irrelevant.includes(query.image);
  return { collection, where, relevant: isExample ? [...new Set([query.image, ...relevant])] : relevant, irrelevant };
}

/** The button of the bar of judgements. */
export function cohortButton(now) {
  const start = startOf(now);
  return html`<button class="button" type="button" id="find-all" ?disabled=${!start.relevant.length} @click=${() => openCohorts(start)}>${tr("Find all of these …")}</button>`;
}
