// The page of a reader study: shows item after item, and stores each answer.

import { imageAddress, jsonBody, request } from "../api.js";
import { picture } from "../card.js";
import { state, subscribe, update } from "../page_state.js";
import { byId } from "../theme.js";
import { tr } from "../translate.js";
import { html, nothing, render } from "../vendor/lit.js";
import { openPictures } from "../viewer/large.js";
import { answered, choiceOf, missing, nextOpen, Stopwatch } from "./reading.js";

const ERASED = "-"; // in place of an image of an erased patient
const SCALE = ["1", "2", "3", "4", "5"];
const MAX_SECONDS = 86400;
const { name, readers, note: noteLength } = JSON.parse(byId("study").dataset.facts);
const watch = new Stopwatch();
let saving = false;

Object.assign(state, {
  reader: readers ? 1 : null, // where people do not log in
  study: null, // {reader, collection, judge_images, items}
  position: -1, // of the item on the page; -1: all are answered
  said: {}, // of that item: {useful_left, useful_right, better, note, relevant}
  problem: "",
});

const post = (address, message) => request(`/study/${encodeURIComponent(name)}${address}`, jsonBody(message));

function showError(error) {
  update({ problem: error.title ? `${error.title}. ${error.message}` : tr("Something went wrong on this page") });
}

async function begin() {
  try {
    const study = await (await post("/items", readers ? { reader: state.reader } : {})).json();
    update({ study });
    go(nextOpen(study.items));
  } catch (error) {
    showError(error);
  }
}

function go(position) {
  const { answer } = state.study.items[position] ?? {};
  const { useful_left: left = "", useful_right: right = "", better = "", note = "", relevant = {} } = answer ?? {};
  update({ position, problem: "", said: { useful_left: String(left), useful_right: String(right), better, note, relevant: { ...relevant } } });
  watch.restart(answer?.seconds ?? 0);
  scrollTo({ top: 0 });
  if (position < 0) queueMicrotask(() => document.querySelector("#course .button").focus());
}

const say = (changes) => update({ said: { ...state.said, ...changes } });

/** Set or take back the judgement of an image, which may be in both lists. */
function judge(image, value) {
  const { [image]: before, ...others } = state.said.relevant;
  say({ relevant: before === value ? others : { ...others, [image]: value } });
}

async function save() {
  const { study, position, said } = state;
  if (saving) return;
  if (missing(said).length) {
    update({ problem: tr("Rate both lists and say which one is better, then go on.") });
    document.querySelector(`#reading [name=${missing(said)[0]}]`).focus();
    return;
  }
  saving = true;
  const item = study.items[position];
  const answer = { ...said, useful_left: Number(said.useful_left), useful_right: Number(said.useful_right), item: item.item, seconds: Math.min(watch.seconds, MAX_SECONDS) };
  try {
    await post("/answers", { ...answer, reader: study.reader });
  } catch (error) {
    showError(error);
    return;
  } finally {
    saving = false;
  }
  const wasOpen = !item.answer;
  item.answer = answer;
  const isLast = position + 1 === study.items.length;
  const open = nextOpen(study.items, isLast ? 0 : position + 1);
  go(wasOpen || open >= 0 ? open : isLast ? -1 : position + 1);
}

// Drawing

const enlarge = (id, caption) => openPictures([[{ source: { kind: "image", collection: state.study.collection, id }, caption }]]);

function shot(image, title) {
  if (image === ERASED) return html`<span class="shot film gone"><span class="missing">${tr("Picture no longer available")}</span></span>`;
  return html`<button class="shot film" type="button" aria-label=${title} @click=${() => enlarge(image, title)}>${picture(imageAddress(state.study.collection, image, "/thumbnail"), { lazy: false })}</button>`;
}

function judgements(image, title, { relevant }) {
  const button = (value, sign, words) =>
    html`<button class="button small" type="button" title=${words} aria-label=${`${words}: ${title}`} aria-pressed=${String(relevant[image] === value)} @click=${() => judge(image, value)}>${sign}</button>`;
  return html`<div class="judged">${button(true, "✓", tr("Relevant"))}${button(false, "✕", tr("Not relevant"))}</div>`;
}

/** Choices of one question; ends: words before and after them. */
const scale = (field, legend, choices, said, ends = []) =>
  html`<fieldset class="scale"><legend>${legend}</legend>${ends[0] ? html`<span class="end">${ends[0]}</span>` : nothing}
    ${choices.map(([value, text]) => html`<label><input type="radio" name=${field} value=${value} .checked=${said[field] === value} @change=${() => say({ [field]: value })} /><span>${text}</span></label>`)}
    ${ends[1] ? html`<span class="end">${ends[1]}</span>` : nothing}</fieldset>`;

function list(side, title, item, { said, study }) {
  const entry = (image, index) => {
    const words = tr("Image {rank}", { rank: index + 1 });
    return html`<li>${shot(image, words)}${study.judge_images && image !== ERASED ? judgements(image, words, said) : nothing}</li>`;
  };
  return html`<section class="side" aria-labelledby=${`title-${side}`}><h2 id=${`title-${side}`}>${title}</h2>
    ${scale(`useful_${side}`, tr("How useful is this list?"), SCALE.map((value) => [value, value]), said, [tr("not at all"), tr("very")])}
    <ol class="grid" role="list" id=${`list-${side}`}>${item[side].map(entry)}</ol></section>`;
}

function reading(now) {
  const { study, position, said } = now;
  const item = study.items[position];
  const [count, total] = [answered(study.items), study.items.length];
  return html`<form class="reading" id="reading" @submit=${(event) => (event.preventDefault(), save())}>
    <div class="head">
      <figure class="asked">${shot(item.query, tr("The query"))}<figcaption>${tr("Query")}</figcaption></figure>
      <div class="progress-line">
        <p id="progress-text" role="status">${tr("Query {number} of {total}, {count} answered", { number: position + 1, total, count })}</p>
        <progress aria-labelledby="progress-text" max=${total} .value=${count}></progress>
        <p class="hint">${tr("Keys: 1 to 5 rate the left list, 6 to 0 the right one, L, E and R say which is better, Enter goes on, P goes back.")}</p>
      </div>
    </div>
    <div class="sides">${list("left", tr("Left list"), item, now)}${list("right", tr("Right list"), item, now)}</div>
    <div class="verdict">
      ${scale("better", tr("Which list is better?"), [["left", tr("Left")], ["equal", tr("Equal")], ["right", tr("Right")]], said)}
      <div class="field note"><label for="note">${tr("Note")}</label>
        <input type="text" id="note" maxlength=${noteLength} autocomplete="off" placeholder=${tr("optional, without names of patients")} .value=${said.note} @input=${({ target }) => say({ note: target.value })} /></div>
      <div class="buttons">
        <button class="button" type="button" id="previous" ?disabled=${!position} @click=${() => go(position - 1)}>${tr("Back")}</button>
        <button class="button primary" type="submit">${tr("Save and go on")}</button>
      </div>
    </div>
  </form>`;
}

const done = ({ study }) => html`<section class="state"><h2>${tr("All queries are answered")}</h2>
    <p>${tr("Thank you. You may still look at your answers and change them.")}</p>
    <button class="button" type="button" ?disabled=${!study.items.length} @click=${() => go(0)}>${tr("Look at the answers")}</button></section>`;

subscribe((now) => {
  byId("intro").hidden = Boolean(now.study);
  byId("problem").textContent = now.problem;
  byId("problem").hidden = !now.problem;
  if (now.study) render(html`${now.position < 0 ? done(now) : reading(now)}`, byId("course"));
});
byId("reader")?.addEventListener("change", ({ target }) => update({ reader: Number(target.value) }));
byId("begin").addEventListener("click", begin);
document.addEventListener("keydown", (event) => {
  const writing = event.target.matches("#note, select, textarea") || event.ctrlKey || event.metaKey || event.altKey;
  if (!byId("reading") || writing || document.querySelector("dialog[open]")) return; // enlarged, or a new login
  const choice = choiceOf(event.key);
  if (choice) say({ [choice.name]: choice.value });
  else if (event.key.toLowerCase() === "p") byId("previous").click();
  else if (event.key === "Enter" && event.target.tagName !== "BUTTON") save();
  else return;
  event.preventDefault();
});
document.addEventListener("visibilitychange", () => (document.hidden ? watch.pause() : watch.go()));
