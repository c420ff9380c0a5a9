// An answer as one HTML file with its pictures, without scripts or other files.

import { fixed, language, tr } from "./translate.js";

const STYLE = `
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 2rem 1.5rem; max-width: 80rem; font: 14px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.4rem; margin: 0; }
p { margin: .25rem 0 0; overflow-wrap: anywhere; }
.soft { opacity: .72; font-size: .85em; }
.query { max-width: 16rem; margin: 1.25rem 0; }
ol { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: 1rem .75rem; margin: 0; padding: 0; list-style: none; }
li { min-width: 0; break-inside: avoid; }
img, .none { display: block; box-sizing: border-box; width: 100%; aspect-ratio: 1; object-fit: contain; background: #000; border-radius: 4px; }
.none { padding: .75rem; background: #8882; }
@media print { body { padding: 0; } ol { grid-template-columns: repeat(5, 1fr); } img { print-color-adjust: exact; } }
`;
const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escape = (text) => String(text).replace(/[&<>"]/g, (sign) => ESCAPES[sign]);

function picture(data, text) {
  return data ? `<img alt="${escape(text)}" src="${escape(data)}">` : `<p class="none">${escape(tr("No picture"))}</p>`;
}

function item(hit, data) {
  const figures = tr("score {score} · distance {distance}", { score: fixed(hit.score, 3), distance: fixed(hit.distance, 3) });
  const labels = Object.entries(hit.labels).map(([key, value]) => `${key} ${value}`).join(", ");
  return [
    `<li>${picture(data, tr("Rank {rank}", { rank: hit.rank }))}`,
    `<p><b>${escape(hit.rank)}</b> · ${escape(figures)}</p>`,
    labels && `<p>${escape(labels)}</p>`,
    `<p class="soft">${escape(hit.image_id)}</p></li>`,
  ].join("");
}

/**
 * The file as text. note: how was searched; query: {caption, data} of its picture, data null for words;
 * results: hits in their order; pictures: the data URL of each, null without a picture.
 */
export function renderSheet({ note, query, results, pictures }) {
  const items = results.map((hit, index) => item(hit, pictures[index])).join("\n");
  return `<!doctype html>
<html lang="${language}"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>${escape(tr("Similar images"))}</title><style>${STYLE}</style></head>
<body><h1>${escape(tr("Similar images"))}</h1>
<p class="soft">${escape(note)}. ${escape(tr("The pictures are from the collection: protect this file as you protect them. Not a medical device."))}</p>
<div class="query">${query.data === null ? "" : picture(query.data, tr("The query"))}<p>${escape(query.caption)}</p></div>
<ol>
${items}
</ol></body></html>
`;
}
