// The record of an image as a list of names and values, the children of a <dl>.

import { ApiError } from "./api.js";
import { tr } from "./translate.js";
import { html, nothing } from "./vendor/lit.js";

const TITLES = { image_id: tr("Image"), format: tr("Format"), frame: tr("Frame"), study: tr("Study"), series: tr("Series"), instance: tr("Instance"), patient_key: tr("Patient (key)") };

const pair = (name, value) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;

/** The labels and facts of a record. */
export function facts(record) {
  const { labels, links, width, height, burned_in: hasText } = record;
  return html`${Object.entries(labels).map(([key, value]) => pair(key, value))}
    ${Object.entries(TITLES).map(([name, title]) => (record[name] ? pair(title, record[name]) : nothing))}
    ${pair(tr("Size"), `${width} × ${height}`)}
    ${links.viewer ? pair(tr("Viewer"), html`<a href=${links.viewer} target="_blank" rel="noopener noreferrer">${tr("Open the study")}</a>`) : nothing}
    ${hasText ? pair(tr("Burned-in annotation"), tr("yes, according to the header")) : nothing}`;
}

/** Why there is no record. */
export function failed(error) {
  if (!(error instanceof ApiError)) throw error;
  return pair(error.title, error.message);
}
