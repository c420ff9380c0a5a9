// The choice of a re-ranker and its parameters: a field for each, empty for its default.

import { byId, element } from "./dom.js";
import { tr } from "./translate.js";

export const NONE = { rerank: "none", parameters: {}, feedback: [] }; // for a search without re-ranking

const select = byId("rerank");
const standard = select.value;

/** Choose the re-ranker of an address; `text` has its parameters in the form P=9;C=1. */
export function open(name = standard, text = "") {
  select.value = name;
  if (!select.value) select.value = standard;
  showFields(text);
}

/** The choice as the address of the page has it. */
export function forAddress() {
  return { rerank: select.value === standard ? "" : select.value, parameters: asText() };
}

/** The choice as a search sends it; a method that takes no judgements gives way to another one if there are some. */
export function forSearch(judgements) {
  return givesWay(judgements) ? { rerank: "auto", parameters: {} } : { rerank: select.value, parameters: values() };
}

function givesWay(judgements) {
  return judgements.length > 0 && !("judgements" in select.selectedOptions[0].dataset);
}

/** Describe the choice. */
export function describe(judgements) {
  const { explanation } = select.selectedOptions[0].dataset;
  const more = givesWay(judgements) ? [tr("It takes no judgements: another method learns from those.")] : [];
  byId("explanation").textContent = [explanation, ...more].join(" ");
  const text = asText();
  byId("parameters-set").textContent = text && ` · ${text.replaceAll(";", ", ")}`;
  byId("parameters-reset").hidden = !text;
}

/** Show the defaults of another collection. */
export function refresh() {
  showFields(asText());
}

function showFields(text = "") {
  const given = new Map(text.split(";").map((entry) => entry.split("=")));
  const infos = JSON.parse(select.selectedOptions[0].dataset.parameters ?? "[]");
  const defaults = JSON.parse(document.querySelector("#facts [data-parameters]").dataset.parameters)[select.value]; // of the profile
  const paper = JSON.parse(select.selectedOptions[0].dataset.paper ?? "null");
  const isPreset = paper !== null && given.get("preset") === "paper";
  const standing = ({ name, default: own }) => (isPreset ? (paper[name] ?? own) : defaults[name]);
  const fields = infos.map((info) => field(info, standing(info), given.get(info.name) ?? ""));
  byId("parameter-fields").replaceChildren(...(paper ? [presetField(isPreset)] : []), ...fields);
  byId("parameters").hidden = !infos.length;
}

function presetField(checked) {
  const input = element("input");
  Object.assign(input, { type: "checkbox", id: "preset", checked });
  const label = element("label", "check", input, ` ${tr("Values of the paper")}`);
  label.htmlFor = input.id;
  return label;
}

function field(info, placeholder, value) {
  const label = element("label", "", info.name);
  const input = element("input");
  const hint = element("p", "hint", tr("{description}; {minimum} to {maximum}", { ...info, description: tr(info.description) }));
  input.id = label.htmlFor = `parameter-${info.name}`;
  hint.id = `${input.id}-hint`;
  const bounds = { min: info.minimum, max: info.maximum, step: info.whole ? 1 : "any" };
  Object.assign(input, { type: "number", name: info.name, ...bounds, placeholder, value });
  input.setAttribute("aria-describedby", hint.id);
  return element("div", "field", label, input, hint);
}

function inputs() {
  return [...byId("parameter-fields").querySelectorAll("input[type=number]")];
}

function values() {
  const numbers = inputs().filter((input) => input.value).map((input) => [input.name, Number(input.value)]);
  return { ...(byId("preset")?.checked ? { preset: "paper" } : {}), ...Object.fromEntries(numbers) };
}

function asText() {
  return Object.entries(values()).map(([name, value]) => `${name}=${value}`).join(";");
}

/** Connect the controls; repeat() searches again. */
export function install(repeat) {
  select.addEventListener("change", () => {
    showFields();
    repeat();
  });
  byId("parameter-fields").addEventListener("change", ({ target }) => {
    if (target.id !== "preset") return;
    showFields(asText()); // with other placeholders
    byId("preset").focus();
    repeat();
  });
  // Before the browser points at a field whose value is out of bounds, which must be visible.
  byId("parameters").addEventListener("invalid", () => (byId("parameters").open = true), true);
  byId("parameters-reset").addEventListener("click", () => {
    showFields();
    byId("parameters").querySelector("summary").focus(); // the button disappears
    repeat();
  });
}
