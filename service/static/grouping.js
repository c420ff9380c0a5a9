// One result per patient, study, series or label value: the choice, and the further results of a group.

import { search } from "./api.js";
import { byId } from "./dom.js";
import { membersOf, nextSize } from "./group_members.js";

/** The choice as the API has it; "" for every image. */
export function read() {
  return byId("group-by").value;
}

/** Set the choice to that of an address; one that the collection does not have counts as none. */
export function write(value = "") {
  byId("group-by").value = value;
  if (byId("group-by").selectedIndex < 0) byId("group-by").value = "";
}

/** Call onChange() when the user makes another choice; the select may be that of another collection by then. */
export function install(onChange) {
  byId("group-field").addEventListener("change", onChange);
}

/** Load further results of the group of `hit`, which keeps them as `members`; `params` are those of its list. */
export async function loadMembers(hit, query, params, signal) {
  const answer = await search(query, { ...params, group_size: nextSize(hit) }, signal);
  Object.assign(hit, membersOf(hit, answer.results));
}
