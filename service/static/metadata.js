// The record of an image as a list of names and values.

import { element } from "./dom.js";

const TITLES = {
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

/** A link that opens the image in the DICOM viewer of the settings. */
function viewerLink(address) {
  const link = element("a", "", "Open the study");
  link.href = address;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  return link;
}

/** Describe a record as the children of a <dl>. */
export function describe(record) {
  const labels = Object.entries(record.labels).map(([key, value]) => pair(key, value));
  const facts = Object.entries(TITLES)
    .filter(([name]) => record[name])
    .map(([name, title]) => pair(title, record[name]));
  facts.push(pair("Size", `${record.width} × ${record.height}`));
  if (record.links.viewer) facts.push(pair("Viewer", viewerLink(record.links.viewer)));
  if (record.burned_in) facts.push(pair("Burned-in annotation", "yes, according to the header"));
  return [...labels, ...facts];
}
