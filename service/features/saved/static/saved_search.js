// Cases and cohorts on the search page.

import { openCase } from "./cases/open_case.js";
import * as saveCase from "./cases/save_case.js";
import * as markedResults from "./cohorts/marked_results.js";
import { addPart } from "./page_parts.js";

function install() {
  saveCase.install();
  markedResults.install();
}

addPart({ open: openCase, install });
