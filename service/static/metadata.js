// The record of an image as a list of names and values.

import { element } from "./dom.js";
import { tr } from "./translate.js";

const TITLES = {
  image_id: tr("Image"),
  format: tr("Format"),
  frame: tr("Frame"),
  study: tr("Study"),
  series: tr("Series"),
  instance: tr("Instance"),
  patient_key: tr("Patient (key)"),
};

function pair(name, value) {
  return element("div", "", element("dt", "", name), element("dd", "", value instanceof Element ? value : String(value)));
}

/** A link that opens the image in the DICOM viewer of the settings. */
function viewerLink(address) {
  const link = element("a", "", tr("Open the study"));
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
  facts.push(pair(tr("Size"), `${record.width} × ${record.height}`));
  if (record.links.viewer) facts.push(pair(tr("Viewer"), viewerLink(record.links.viewer)));
  if (record.burned_in) facts.push(pair(tr("Burned-in annotation"), tr("yes, according to the header")));
  return [...labels, ...facts];
}
