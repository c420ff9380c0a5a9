// Cases and cohorts on the search page.

import { openCase } from "./cases/open_case.js";
import * as saveCase from "./cases/save_case.js";
import * as markedResults from "./cohorts/marked_results.js";
import { addPart } from "./page_parts.js";

addPart({ open: openCase, actions: saveCase.button, dialogs: saveCase.dialog, marked: markedResults.button });
