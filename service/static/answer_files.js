// An answer as the text of files: csv, JSON, and the UIDs of its DICOM images.

const COLUMNS = ["rank", "image_id", "score", "distance", "patient", "study", "series", "instance", "frame"];

/** A cell of a csv file, quoted where needed; what a spreadsheet takes for a formula begins with an apostrophe. */
function cell(value) {
  // A formula may also follow ; or a tab, which separate cells in many spreadsheets, or a line break.
  let text = String(value ?? "").split(/([;\t\r\n])/).map(harmlessPart).join("");
  if (/^[\t\r\n]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function harmlessPart(part) {
  const isNumber = part.trim() === part && Number.isFinite(Number(part));
  return /^[\s"]*[=+\-@\uff1d\uff0b\uff0d\uff20]/.test(part) && !isNumber ? `'${part}` : part;
}

function csv(rows) {
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

/** The results as csv: a row for each, with a column for each label; a label with the name of a column is label:NAME. */
export function toCsv(results) {
  const keys = [...new Set(results.flatMap((hit) => Object.keys(hit.labels)))];
  const titles = keys.map((key) => (COLUMNS.includes(key) ? `label:${key}` : key));
  const rows = results.map((hit) => {
    const facts = { ...hit, ...hit.dicom };
    return [...COLUMNS.map((column) => facts[column]), ...keys.map((key) => hit.labels[key])];
  });
  return csv([[...COLUMNS, ...titles], ...rows]);
}

/** The answer as the API gives it, with these results. */
export function toJson(answer, results) {
  const plain = results.map(({ members, ...hit }) => hit);
  return `${JSON.stringify({ ...answer, results: plain }, null, 2)}\n`;
}

/** The UIDs of the DICOM images among the results as csv, each instance once. */
export function toUids(results) {
  const places = new Map(results.filter((hit) => hit.dicom).map(({ dicom }) => [dicom.instance, dicom]));
  const rows = [...places.values()].map(({ study, series, instance }) => [study, series, instance]);
  return csv([["StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID"], ...rows]);
}
