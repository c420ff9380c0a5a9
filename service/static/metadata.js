// What the collection knows of an image, as a list of names and values.

import { element } from "./answers.js";

const NAMES = {
  image_id: "Image",
  format: "Format",
  frame: "Frame",
  study: "Study",
  series: "Series",
  instance: "Instance",
  patient_key: "Patient (key)",
};

function pair(name, value) {
  return element("div", "", element("dt", "", name), element("dd", "", value instanceof Element ? value : String(value)));
}

/** A link to the image in the viewer that the settings name. */
function viewer(address) {
  const link = element("a", "", "Open the study");
  link.href = address;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  return link;
}

/** The children of a <dl> for a record. */
export function describe(record) {
  const labels = Object.entries(record.labels).map(([key, value]) => pair(key, value));
  const facts = Object.entries(NAMES)
    .filter(([name]) => record[name])
    .map(([name, title]) => pair(title, record[name]));
  facts.push(pair("Size", `${record.width} × ${record.height}`));
  if (record.links.viewer) facts.push(pair("Viewer", viewer(record.links.viewer)));
  if (record.burned_in) facts.push(pair("Burned in", "annotation, says its header"));
  return [...labels, ...facts];
}
