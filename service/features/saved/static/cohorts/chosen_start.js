// The way from the selected images of Browse to a cohort of all images like them.

import { inLinks } from "../browse/listing.js";
import { limited } from "../browse/selection_bar.js";
import { addPart } from "../page_state.js";
import { tr } from "../translate.js";
import { MOST, openCohorts } from "./start_cohort.js";

function selection(now, chosen) {
  const begin = () => openCohorts({ collection: inLinks(), relevant: chosen(), irrelevant: [], where: [] });
  return limited(now, MOST, tr("Find all of these …"), begin, { id: "find-all" });
}

addPart({ selection });
