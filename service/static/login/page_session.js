// The session of this page.

import { askToLogIn } from "./login_dialog.js";
import { csrfOf, loadCsrf } from "./login_requests.js";
import { Session } from "./session.js";

export const session = new Session(csrfOf(document), loadCsrf, askToLogIn);
