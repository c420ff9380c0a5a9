// The pictures of an item, the answers to it, and what lies over them while there is nothing to judge.

import { problemBox } from "../list_page.js";
import { state, update } from "../page_state.js";
import { remember } from "../theme.js";
import { fixed, tr, trn } from "../translate.js";
import { html, nothing, ref } from "../vendor/lit.js";
import { openPictures } from "../viewer/large.js";
import { answer, changeWindow, giveGrade, hold, isPairs, pause, secondsOf, showError, undo, writeSeverity } from "./judging.js";
import { addressOf, facts, sliceOf, sourceOf } from "./study_facts.js";

const RATE_WINDOW = 20; // judgements that the rate is averaged over

function countText({ round, rounds, done, of, judged, graded, graded_by_you: own, images }) {
  if (!isPairs) return [trn("{own} of {count} image graded by you", "{own} of {count} images graded by you", images, { own }), tr("{graded} graded by anyone", { graded })].join(" · ");
  const parts = [tr("Round {round} of {rounds}", { round, rounds }), trn("{done} of {count} pair", "{done} of {count} pairs", of, { done }), tr("{judged} judged by you", { judged })];
  if (graded) parts.push(trn("{count} image graded", "{count} images graded", graded));
  return parts.join(" · ");
}

function trainingText({ learning, learnt, trained_on: trainedOn }) {
  if (learning === "failed") return tr("Training failed; see the server log. You can go on judging.");
  if (learning === "learning") return learnt ? tr("Training … (last trained after round {round})", { round: learnt }) : tr("Training …");
  if (learnt) return tr("Trained after round {round}", { round: learnt });
  return trainedOn ? tr("Trained on the grades so far") : "";
}

function rateText(now) {
  const recent = secondsOf(now).slice(-RATE_WINDOW);
  if (!recent.length) return "";
  const mean = recent.reduce((sum, time) => sum + time, 0) / recent.length;
  const values = { seconds: fixed(mean, 1), rate: Math.round(60 / Math.max(mean, 0.1)) };
  return isPairs ? tr("{seconds} s per pair · {rate} per minute", values) : tr("{seconds} s per image · {rate} per minute", values);
}

function agreementText({ people, pairs, alpha }) {
  const values = { people, alpha: alpha === null ? tr("not yet defined") : fixed(alpha, 2) };
  return trn("Agreement of {people} people: α {alpha} on {count} pair", "Agreement of {people} people: α {alpha} on {count} pairs", pairs, values);
}

function standing(now) {
  const { progress, agreement, unsent, written } = now;
  const [value, max] = !progress ? [0, 1] : isPairs ? [progress.done, progress.of] : [progress.graded_by_you, progress.images];
  return html`<section class="standing" aria-label=${tr("Progress")}>
    <progress id="bar" max=${Math.max(max, 1)} .value=${value} aria-label=${isPairs ? tr("Pairs of this round") : tr("Images graded by you")}></progress>
    <p id="round">${progress ? countText(progress) : ""}</p>
    <p id="rate">${rateText(now)}</p>
    <p id="learning" role="status">${progress ? trainingText(progress) : ""}</p>
    <p id="agreement">${agreement ? agreementText(agreement) : ""}</p>
    <p id="unsent" role="status">${unsent > 1 ? trn("{count} answer not saved yet", "{count} answers not saved yet", unsent) : ""}</p>
    ${progress?.trained_on ? html`<button class="button" type="button" id="write" ?disabled=${written === "sending"} @click=${writeSeverity}>${tr("Write severity to the collection")}</button>` : nothing}
    <p id="written" role="status">${written?.images ? tr("{images} images now have the label {label}", written) : ""}</p>
  </section>`;
}

const SIDES = isPairs ? [["left", tr("Left image")], ["right", tr("Right image")]] : [["left", tr("Image to grade")]];
const ROWS = [[tr("Grade of the left image"), tr("Left image"), tr("Upper image")], [tr("Grade of the right image"), tr("Right image"), tr("Lower image")]];

/** Show a source at the place of the one before: the same zoom for all items. */
function showSource(viewer, source) {
  if (!viewer || !source || viewer.source === source) return;
  const { place } = viewer;
  viewer.source = source;
  viewer.place = place;
}

const pane = ([id, label], source) =>
  html`<figure><cbir-viewer id=${id} label=${label} tools="window zoom" wheel-zooms keyless .linked=${"judged"} ${ref((viewer) => showSource(viewer, source))}></cbir-viewer></figure>`;

function cover({ paused, cover: over }) {
  if (paused) return html`<h2>${tr("Paused")}</h2><p>${tr("The time is not counted while you pause.")}</p>
    <button class="button primary big" type="button" id="resume" @click=${() => pause(false)}>${tr("Continue")}</button>`;
  if (over?.kind !== "finished") return over?.text ?? nothing;
  if (!isPairs) return html`<h2>${tr("You have graded all images of this study")}</h2><p><a href=${addressOf("/annotate/review")}>${tr("Look at what was judged")}</a></p>`;
  return html`<h2>${tr("All pairs of this study are judged")}</h2>
    <p>${tr("You can write the predicted severity to the collection: each image gets the label severity, to search and sort by.")}</p>
    <p class="hint">${tr("For more rounds, start the server with a larger --rounds.")}</p>`;
}

function openReference(position) {
  hold(true);
  openPictures(facts.references.map(({ image, caption }) => [{ source: sourceOf(image), caption }]), position).then(() => hold(false));
}

export function switchReferences() {
  update({ references: !state.references });
  remember("references", state.references ? "on" : "off");
}

function references({ references: isShown }) {
  if (!facts.references.length) return nothing;
  return html`<aside class="references" id="references" aria-label=${tr("Reference images")} ?hidden=${!isShown}><ul role="list">
    ${facts.references.map(({ image, caption }, index) => html`<li><button type="button" @click=${() => openReference(index)}><img src=${sliceOf(image, { side: 192 }).address} alt="" loading="lazy" /><span>${caption}</span></button></li>`)}
  </ul></aside>`;
}

/** A button of a grade, or of none: null. */
function gradeButton(now, image, { value, name, key }, { big = false, more = nothing } = {}) {
  const grade = value === "" ? null : Number(value);
  const give = ({ currentTarget }) => {
    giveGrade(image, grade);
    currentTarget.blur(); // so that keys judge again
  };
  return html`<button class=${`button${big ? " big" : ""}`} type="button" id=${value === "" ? "skip" : nothing} data-grade=${value} data-key=${key ?? nothing} aria-keyshortcuts=${big && key ? key : nothing}
    aria-pressed=${String(image !== undefined && now.given.get(image) === grade)} ?disabled=${!now.ready || now.paused} @click=${give}>${name}${more}</button>`;
}

const sign = (text) => html`<span aria-hidden="true">${text}</span>`;

/** The words of an answer for pictures beside each other, and for those above each other. */
const either = (across, stacked) => html`<span class="across">${across}</span><span class="stacked">${stacked}</span>`;

function verdict(now) {
  const choice = (id, kind, words) => html`<button class=${`button ${kind} big`} type="button" id=${id} ?disabled=${!now.ready || now.paused} @click=${() => answer(id)}>${words}</button>`;
  return html`<div class="verdict" role="group" aria-label=${tr("Answer")}>
      ${choice("first", "primary", either(html`${sign("←")} ${tr("Left")}`, html`${sign("↑")} ${tr("Upper")}`))}
      ${choice("alike", "", html`${tr("Equal")} <span class="across" aria-hidden="true">↓</span>`)}
      ${choice("second", "primary", either(html`${tr("Right")} ${sign("→")}`, html`${tr("Lower")} ${sign("↓")}`))}
    </div>
    ${facts.grades.length ? html`<div class="grades">${ROWS.map(([title, across, stacked], index) => html`<div class="buttons" role="group" aria-label=${title}>
      <span class="hint">${either(across, stacked)}</span>${facts.grades.map(({ value, name }) => gradeButton(now, now.item?.ids[index], { value, name }))}</div>`)}</div>` : nothing}`;
}

function grading(now) {
  const image = now.item?.ids[0];
  const keyOf = (text) => html` <kbd aria-hidden="true">${text}</kbd>`;
  return html`<div class="grading-row" role="group" aria-label=${tr("Grade")}>
    ${facts.grades.map((grade) => gradeButton(now, image, grade, { big: true, more: grade.key && grade.key !== grade.name ? keyOf(grade.key) : nothing }))}
    ${gradeButton(now, image, { value: "", name: tr("Cannot judge"), key: "x" }, { big: true, more: keyOf("X") })}
  </div>`;
}

function tools(now) {
  const { ready, paused, history, references: isShown } = now;
  return html`<div class="tools"><div class="buttons">
    ${isPairs ? html`<button class="button" type="button" id="skip" ?disabled=${!ready || paused} title="S" @click=${() => answer("skip")}>${tr("Skip")}</button>` : nothing}
    <button class="button" type="button" id="undo" ?disabled=${paused || !history.length} title=${tr("U or Backspace")} @click=${undo}>${tr("Undo")}</button>
    <button class="button" type="button" id="pause" ?disabled=${paused} title="P" @click=${() => pause()}>${tr("Pause")}</button>
    ${facts.references.length ? html`<button class="button" type="button" id="references-switch" aria-expanded=${String(isShown)} aria-controls="references" title="R" @click=${switchReferences}>${tr("Reference images")}</button>` : nothing}
  </div></div>`;
}

export function desk(now) {
  const [first = "", second = ""] = now.item?.ids ?? [];
  const isCovered = now.paused || now.cover !== null;
  return html`${problemBox(now)}
    <div class="desk">${references(now)}
      <div class="stage">
        <div class="panes" id="panes" data-first=${first} data-second=${second} ?inert=${isCovered} @cbir-window=${({ detail }) => changeWindow(detail)} @cbir-failed=${({ detail }) => showError(detail.error)}>
          ${SIDES.map((side, index) => pane(side, now.sources[index]))}
        </div>
        <section class="cover" id="cover" data-kind=${now.paused ? "paused" : (now.cover?.kind ?? "")} aria-live="polite" ?hidden=${!isCovered}>${cover(now)}</section>
      </div>
    </div>
    ${isPairs ? verdict(now) : grading(now)}${tools(now)}${standing(now)}`;
}
