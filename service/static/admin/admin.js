// The page for administrators: loads what the service reports, again and again while the page is seen.

import "../shell.js";
import { fetchJson, jsonBody } from "../api.js";
import { ask } from "../dialog.js";
import { state, subscribe, update } from "../page_state.js";
import { byId, copyText } from "../theme.js";
import { html, nothing, render } from "../vendor/lit.js";
import { isActive, madeBy, page, tokenFields, tokenRequest } from "./sections.js";

const SECONDS = { health: 5, jobs: 10, collections: 30, tokens: 30, requests: 60 };
const ACTIVE_SECONDS = 1; // between two looks at jobs that run

const load = (path) => fetchJson(`/v1/${path}`);
const post = (path, body) => fetchJson(`/v1/${path}`, jsonBody(body));

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

const refreshList = (name, path = `admin/${name}`) => async () => update({ [name]: (await load(path)).items });
const refreshTokens = refreshList("tokens");

async function refreshJobs() {
  await refreshList("jobs", "jobs")();
  return state.jobs.some(isActive) ? ACTIVE_SECONDS : undefined;
}

/** Change something and read what follows, whose failure is no failure of the change. */
async function change(path, refresh) {
  await post(path);
  refresh().catch(showError);
}

const actions = {
  async create() {
    let created = null;
    const act = async (fields) => (created = await post("admin/tokens", tokenRequest(fields)));
    if (!(await ask({ id: "token", title: "Create a token", body: tokenFields(state), confirm: "Create", act }))) return;
    showToken(created.token);
    refreshTokens().catch(showError);
  },
  cancel({ job, collection }) {
    const act = () => change(`jobs/${encodeURIComponent(job)}/cancel`, refreshJobs);
    ask({ id: "cancel", title: "Cancel the job?", body: html`<p>What it has added to ${collection} so far stays.</p>`, confirm: "Cancel the job", kind: "danger", act });
  },
  retry: ({ job }) => change(`jobs/${encodeURIComponent(job)}/retry`, refreshJobs).catch(showError),
  revoke({ token_id: id, name }) {
    const made = madeBy(state.tokens, id).filter((token) => token.state === "valid").length;
    const choice = html`<label class="check"><input type="checkbox" name="made" autocomplete="off" /> Also the ${made} token${made === 1 ? "" : "s"} that it or its tokens have made</label>`;
    const body = html`<p>It ends at once, with all logins made with it, and cannot be restored.</p>${made ? choice : nothing}`;
    const act = (fields) => change(`admin/tokens/${encodeURIComponent(id)}/revoke${fields.has("made") ? "?with_made=true" : ""}`, refreshTokens);
    ask({ id: "revoke", title: `Revoke the token ${name ? `${id} (${name})` : id}?`, body, confirm: "Revoke", kind: "danger", act });
  },
};

function showToken(token) {
  const copy = async ({ target }) => (target.nextElementSibling.textContent = (await copyText(token)) ? "Copied." : "Select the text and copy it.");
  const body = html`<p>Store it now: it is shown this once and kept nowhere.</p><output class="secret">${token}</output>
    <p class="buttons"><button class="button" type="button" @click=${copy}>Copy</button> <span role="status"></span></p>`;
  ask({ id: "created", title: "The token is created", body, confirm: "Close", cancel: "", act: () => {} });
}

Object.assign(state, {
  ...JSON.parse(byId("admin").dataset.facts), // {needs_tokens, scopes, names} of collections
  ...{ health: null, jobs: null, collections: [], tokens: [], requests: [], settings: [] }, // as the service reports them
  ...{ allJobs: false, endedTokens: false, defaultSettings: false, problem: null, actions },
});
subscribe((now) => render(page(now), byId("admin-sections")));
update({});
queueMicrotask(() => location.hash && byId(location.hash.slice(1))?.scrollIntoView());
repeat(async () => update({ health: await load("admin/health") }), SECONDS.health);
repeat(refreshJobs, SECONDS.jobs);
for (const name of ["collections", "tokens", "requests"]) repeat(refreshList(name), SECONDS[name]);
refreshList("settings")().catch(showError);
