// The way from the selected images of the gallery to a cohort of all images like them.

import { byId } from "../dom.js";
import { limit } from "../gallery/selection_bar.js";
import { addPart } from "../page_parts.js";
import { MOST, openCohorts } from "./start_cohort.js";

function select(selection) {
  limit(byId("find-all"), selection.size, MOST);
}

function install({ chosen }) {
  byId("find-all").addEventListener("click", () => {
    openCohorts({ collection: byId("gallery").dataset.collection, relevant: chosen(), irrelevant: [], where: [] });
  });
}

addPart({ select, install });
