// The page for administrators: loads what the service reports, again and again while the page is seen.

import "../shell.js";
import { jsonBody, request } from "../api.js";
import { state, subscribe, update } from "../page_state.js";
import { byId } from "../theme.js";
import { render } from "../vendor/lit.js";
import { isActive, madeBy, page } from "./sections.js";
import { confirmed, installCreation, openCreation } from "./token_dialogs.js";

const SECONDS = { health: 5, jobs: 10, collections: 30, tokens: 30, requests: 60 };
const ACTIVE_SECONDS = 1; // between two looks at jobs that run

const load = async (path) => (await request(`/v1/${path}`, {})).json();
const post = async (path, body) => (await request(`/v1/${path}`, jsonBody(body))).json();

function showError({ title, message }) {
  update({ problem: title ? { title, message } : { title: "Something went wrong on this page", message: "Reload the page." } });
}

/** Call `refresh`, which may return other seconds, every so many seconds while the page is seen. */
async function repeat(refresh, seconds) {
  let next = seconds;
  if (!document.hidden) {
    try {
      next = (await refresh()) ?? seconds;
      update({ problem: null });
    } catch (error) {
      showError(error);
    }
  }
  setTimeout(() => repeat(refresh, seconds), next * 1000);
}

/** Load a list of the state. */
const refreshList = (name, path = `admin/${name}`) => async () => update({ [name]: (await load(path)).items });
const refreshTokens = refreshList("tokens");

async function refreshJobs() {
  await refreshList("jobs", "jobs")();
  return state.jobs.some(isActive) ? ACTIVE_SECONDS : undefined;
}

/** Post, and show what it has changed. */
const change = (path, refresh) => post(path).then(refresh).catch(showError);

const actions = {
  create: openCreation,
  async cancel({ job, collection }) {
    const agreed = await confirmed("Cancel the job?", `What it has added to ${collection} so far stays.`, "Cancel the job");
    if (agreed) await change(`jobs/${encodeURIComponent(job)}/cancel`, refreshJobs);
  },
  retry: ({ job }) => change(`jobs/${encodeURIComponent(job)}/retry`, refreshJobs),
  async revoke({ token_id: id, name }) {
    const made = madeBy(state.tokens, id).filter((token) => token.state === "valid").length;
    const choice = made ? `Also the ${made} token${made === 1 ? "" : "s"} that it or its tokens have made` : "";
    const title = `Revoke the token ${name ? `${id} (${name})` : id}?`;
    const agreed = await confirmed(title, "It ends at once, with all logins made with it, and cannot be restored.", "Revoke", choice);
    if (agreed) await change(`admin/tokens/${encodeURIComponent(id)}/revoke${agreed === "chosen" ? "?with_made=true" : ""}`, refreshTokens);
  },
};

Object.assign(state, {
  ...{ health: null, jobs: null, collections: [], tokens: [], requests: [], settings: [] }, // as the service reports them
  ...{ allJobs: false, endedTokens: false, defaultSettings: false, problem: null, actions },
  needsTokens: byId("admin").dataset.tokens === "needed",
});
subscribe((now) => render(page(now), byId("admin-sections")));
update({});
queueMicrotask(() => location.hash && byId(location.hash.slice(1))?.scrollIntoView());
installCreation(async (body) => {
  const created = await post("admin/tokens", body);
  refreshTokens().catch(showError);
  return created;
});
repeat(async () => update({ health: await load("admin/health") }), SECONDS.health);
repeat(refreshJobs, SECONDS.jobs);
repeat(refreshList("collections"), SECONDS.collections);
repeat(refreshTokens, SECONDS.tokens);
repeat(refreshList("requests"), SECONDS.requests);
refreshList("settings")().catch(showError);
