// A judged pair or image: pictures, decision, disagreement, history, and how to change it.

import { element, replaceIfMissing } from "/static/dom.js";
import { fixed, language, tr } from "/static/translate.js";
import { openPictures } from "../picture_dialog.js";
import { choices } from "./decisions.js";
import { decisionText, timeText } from "./decision_texts.js";

const SIDE = 256; // pixels of a small picture
const NO_OPINION = ["skip", "none"]; // decisions that contradict nobody

function smallPicture(id, caption, isChosen, open) {
  const image = element("img", "");
  Object.assign(image, { src: `/annotate/images/${id}/picture?side=${SIDE}`, alt: caption, loading: "lazy" });
  replaceIfMissing(image);
  const button = element("button", isChosen ? "film chosen" : "film", image);
  button.type = "button";
  button.addEventListener("click", open);
  return button;
}

function pictures(answer) {
  const views =
    answer.kind === "pair"
      ? [[answer.first, tr("Left image"), "first"], [answer.second, tr("Right image"), "second"]]
      : [[answer.image, tr("Image"), ""]];
  const open = () => openPictures([views.map(([id, caption]) => ({ id, caption }))]);
  return element(
    "div",
    "small-pictures",
    ...views.map(([id, caption, side]) => smallPicture(id, caption, answer.decision === side, open)),
  );
}

function note(className, text) {
  return element("p", className, text);
}

function notes(answer, grades) {
  const text = ({ decision }) => decisionText(answer.kind, decision, grades);
  const found = [];
  if (answer.contradicts_model) found.push(note("flag", tr("Differs from the model")));
  for (const other of answer.others) {
    const isContrary = other.decision !== answer.decision && !NO_OPINION.includes(other.decision);
    found.push(note(isContrary ? "flag" : "hint", tr("{who}: {decision}", { who: other.who, decision: text(other) })));
  }
  for (const earlier of answer.earlier) {
    found.push(note("hint", tr("Before, {time}: {decision}", { time: timeText(earlier.at, language), decision: text(earlier) })));
  }
  return found;
}

function actions(answer, grades, { onChange, onWithdraw }) {
  const select = element("select", "");
  select.setAttribute("aria-label", tr("Decision"));
  for (const decision of choices(answer, grades)) {
    const option = element("option", "", decisionText(answer.kind, decision, grades));
    Object.assign(option, { value: decision, selected: decision === answer.decision });
    select.append(option);
  }
  select.addEventListener("change", () => onChange(answer, select.value));
  const withdraw = element("button", "button", tr("Withdraw"));
  withdraw.type = "button";
  withdraw.addEventListener("click", () => onWithdraw(answer));
  return element("div", "actions", select, withdraw);
}

/** The list item of an answer; isOwn: the person may change it by onChange(answer, decision) and onWithdraw(answer). */
export function answerCard(answer, grades, isOwn, callbacks) {
  const facts = tr("{who} · {time} · {seconds} s", {
    who: answer.who,
    time: timeText(answer.at, language),
    seconds: fixed(answer.seconds, 1),
  });
  const words = element(
    "div",
    "words",
    element("p", "label", decisionText(answer.kind, answer.decision, grades)),
    element("p", "hint", facts),
    ...notes(answer, grades),
    ...(isOwn ? [actions(answer, grades, callbacks)] : []),
  );
  const item = element("li", "card", pictures(answer), words);
  item.dataset.name = answer.name;
  return item;
}
