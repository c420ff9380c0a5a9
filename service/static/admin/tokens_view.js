// The section "Tokens".

import { byId, element } from "../dom.js";
import { tr } from "../translate.js";
import { showRows } from "./keyed_rows.js";
import { time } from "./words.js";

/** Who made a token: another one, a user, or the command line. */
function maker(name) {
  if (!name) return tr("command line");
  const [kind, id] = [name.slice(0, name.indexOf(" ")), name.slice(name.indexOf(" ") + 1)];
  return kind === "token" ? tr("token {id}", { id }) : id;
}

function cells({ token_id, name, state, scopes, collections, where, created, made_by, last_used, expires }) {
  const limits = [...collections, ...where].join(", ") || tr("everything");
  const ends = state === "revoked" ? tr("revoked") : state === "expired" ? tr("expired {time}", { time: time(expires) }) : time(expires, tr("never"));
  return [token_id, name, scopes.join(", "), limits, time(created), maker(made_by), time(last_used, tr("never")), ends];
}

/** Show the tokens; revoke(token) is called for the one that the user wants to revoke. */
export function show(tokens, revoke) {
  const withEnded = byId("ended-tokens")?.checked;
  const shown = tokens.filter(({ state }) => withEnded || state === "valid");
  const tail = (token) => {
    if (token.state !== "valid") return [];
    const button = element("button", "button small", tr("Revoke …"));
    button.type = "button";
    button.setAttribute("aria-label", tr("Revoke the token {id}", { id: token.token_id }));
    button.addEventListener("click", () => revoke(token));
    return [button];
  };
  byId("token-table").hidden = !shown.length;
  showRows(byId("tokens"), shown, ({ token_id, state }) => `${token_id} ${state}`, cells, { tail });
}
