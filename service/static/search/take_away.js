// The menu below the query: copying the link of a search, saving its results as a file, printing them.

import { copyText } from "../clipboard.js";
import { update } from "../page_state.js";
import { tr } from "../translate.js";
import { html, nothing } from "../vendor/lit.js";
import { shownHits } from "./run.js";

async function copyLink({ query }) {
  const copied = await copyText(location.href);
  const said = copied ? tr("Link copied.") : tr("The browser does not allow copying; copy the link from the address bar.");
  update({ notice: query.image ? said : `${said} ${tr("It has the settings, but not your image or words.")}` });
}

/** The items of the menu. */
export function items(now) {
  const item = (name, title, action) => html`<button type="button" data-save=${name} @click=${action}>${title}</button>`;
  const download = (name, title) => item(name, title, async () => (await import("./answer_downloads.js")).DOWNLOADS[name](now));
  return [
    item("link", tr("Copy link"), () => copyLink(now)),
    download("sheet", tr("Sheet with pictures (HTML)")),
    download("print", tr("Print")),
    download("csv", tr("Table (csv)")),
    download("json", tr("Answer (JSON)")),
    shownHits(now).some((hit) => hit.dicom) ? download("uids", tr("DICOM UIDs (csv)")) : nothing,
  ];
}
