// What pages of lists share: tabs, a problem with a way to go on, a button for more.

import { state, update } from "./page_state.js";
import { number, tr } from "./translate.js";
import { html, nothing } from "./vendor/lit.js";

/** Run an action, busy meanwhile; what goes wrong is the problem of the page, which offers to try again, or what `again` does. */
export async function attempt(action, again = () => attempt(action)) {
  update({ busy: true, problem: null });
  try {
    await action();
  } catch (error) {
    update({ problem: { message: error.message, again } });
  } finally {
    update({ busy: false });
  }
}

/** Change something, one at a time, then read what follows. Trying again repeats what failed: no change is made twice. */
export function changeAndRead(change, read) {
  if (state.busy) return null;
  let isMade = false;
  return attempt(async () => {
    if (!isMade) await change();
    isMade = true;
    await read();
  });
}

/** The problem {title, message, again, words} of a state. again(): what its button does, with these words; absent where it does not help. */
export function problemBox({ problem } = state) {
  if (!problem) return nothing;
  const { title = tr("That did not work"), message, again, words = tr("Try again") } = problem;
  return html`<section class="state problem" id="problem" role="alert"><h2>${title}</h2><p>${message}</p>
    ${again ? html`<button class="button" type="button" id="retry" @click=${again}>${words}</button>` : nothing}</section>`;
}

/** Tabs {name, title, count} as links to a part of the page; current: the name of the one that is shown. */
export function tabs(label, items, current) {
  const tab = ({ name, title, count }) => html`<a href=${`#${name}`} id=${`tab-${name}`} aria-current=${name === current ? "true" : nothing}>${title}${count === undefined || count === null ? "" : ` ${number(count)}`}</a>`;
  return html`<nav class="tabs" aria-label=${label}>${items.map(tab)}</nav>`;
}

export const moreButton = (next, load) => (next ? html`<p class="further"><button class="button" type="button" id="more" @click=${() => state.busy || load()}>${tr("Load more")}</button></p>` : nothing);
