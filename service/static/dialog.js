// A dialog that asks, with what went wrong in it.

import { tr } from "./translate.js";
import { html, nothing, render } from "./vendor/lit.js";

/**
 * Ask in a dialog; resolves with whether it was agreed to and done. body, confirm: a template, or a function to one from the values of
 * its fields; kind: "danger" where something is lost; refused: why nothing can be agreed to; cancel: "" for no such button. act(fields): does it, its error is shown.
 */
export function ask({ id, title, body, confirm, cancel = tr("Cancel"), kind = "primary", refused = "", act }) {
  const place = document.body.appendChild(document.createElement("div"));
  const close = () => place.querySelector("dialog")?.close();
  let isBusy = false;
  return new Promise((resolve) => {
    const submit = async (event) => {
      event.preventDefault();
      if (isBusy) return;
      isBusy = true;
      draw();
      try {
        await act(new FormData(event.target));
        close();
        resolve(true);
      } catch (error) {
        isBusy = false;
        if (!place.isConnected) return resolve(false); // closed meanwhile
        draw(error.message);
        (place.querySelector("[autofocus]:not(button)") ?? document.getElementById(`${id}-confirm`))?.focus(); // a disabled button loses it
      }
    };
    const end = () => {
      place.remove();
      if (!isBusy) resolve(false);
    };
    const draw = (problem = refused) => {
      const fields = new FormData(place.querySelector("form") ?? undefined);
      const drawn = (part) => (typeof part === "function" ? part(fields) : part);
      const buttons = [
        html`<button class="button ${kind}" type="submit" id=${`${id}-confirm`} ?disabled=${isBusy || Boolean(refused)}>${drawn(confirm)}</button>`,
        html`<button class="button" type="button" ?autofocus=${kind === "danger"} ?hidden=${!cancel} @click=${close}>${cancel}</button>`,
      ];
      render(html`<dialog class="help" id=${`${id}-dialog`} aria-labelledby=${`${id}-heading`} @close=${end}><form class="asked" @submit=${submit} @input=${() => draw(problem)}>
        <h2 id=${`${id}-heading`}>${title}</h2>${drawn(body)}
        ${problem ? html`<p class="problem" id=${`${id}-problem`} role="alert">${problem}</p>` : nothing}
        <div class="buttons">${kind === "danger" ? buttons.reverse() : buttons}</div></form></dialog>`, place);
    };
    draw();
    place.firstElementChild.showModal();
  });
}
