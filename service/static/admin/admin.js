// The page for administrators: loads what the service reports, again and again while the page is seen.

import { ApiError, request } from "../api.js";
import { byId } from "../dom.js";
import { tr, trn } from "../translate.js";
import { isActive, madeBy } from "./figures.js";
import * as healthView from "./health_view.js";
import * as jobsView from "./jobs_view.js";
import { showCollections, showRequests, showSettings } from "./tables_view.js";
import { confirmed, installCreation } from "./token_dialogs.js";
import * as tokensView from "./tokens_view.js";

const SECONDS = { jobs: 10, health: 5, collections: 30, tokens: 30, requests: 60 };
const ACTIVE_SECONDS = 1; // between two looks at jobs that run

let tokens = [];
let settings = [];

const load = async (address) => (await request(address, {})).json();

async function post(address, body) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return (await request(address, options)).json();
}

function showError(error) {
  const [title, text] = byId("problem").children;
  title.textContent = error instanceof ApiError ? error.title : tr("Something went wrong on this page");
  text.textContent = error instanceof ApiError ? error.message : tr("Reload the page.");
  byId("problem").hidden = false;
}

/** Call `refresh`, which may return other seconds, every so many seconds while the page is seen. */
async function repeat(refresh, seconds) {
  let next = seconds;
  if (!document.hidden) {
    try {
      next = (await refresh()) ?? seconds;
      byId("problem").hidden = true;
    } catch (error) {
      showError(error);
    }
  }
  setTimeout(() => repeat(refresh, seconds), next * 1000);
}

async function refreshJobs() {
  const { items } = await load("/v1/jobs");
  jobsView.show(items, { cancel, retry });
  return items.some(isActive) ? ACTIVE_SECONDS : undefined;
}

async function refreshTokens() {
  tokens = (await load("/v1/admin/tokens")).items;
  tokensView.show(tokens, revoke);
}

async function cancel({ job, collection }) {
  const agreed = await confirmed(tr("Cancel the job?"), tr("What it has added to {collection} so far stays.", { collection }), tr("Cancel the job"));
  if (!agreed) return;
  await post(`/v1/jobs/${encodeURIComponent(job)}/cancel`).then(refreshJobs).catch(showError);
}

async function retry({ job }) {
  await post(`/v1/jobs/${encodeURIComponent(job)}/retry`).then(refreshJobs).catch(showError);
}

async function revoke({ token_id: id, name }) {
  const title = tr("Revoke the token {id}?", { id: name ? `${id} (${name})` : id });
  const text = tr("It ends at once, with all logins made with it, and cannot be restored.");
  const made = madeBy(tokens, id).filter(({ state }) => state === "valid").length;
  const choice = made && trn("Also the {count} token that it or its tokens have made", "Also the {count} tokens that it or its tokens have made", made);
  const agreed = await confirmed(title, text, tr("Revoke"), choice);
  if (!agreed) return;
  const withMade = agreed === "chosen" ? "?with_made=true" : "";
  await post(`/v1/admin/tokens/${encodeURIComponent(id)}/revoke${withMade}`).then(refreshTokens).catch(showError);
}

installCreation(async (body) => {
  const created = await post("/v1/admin/tokens", body);
  refreshTokens().catch(showError);
  return created;
});
byId("ended-tokens")?.addEventListener("change", () => tokensView.show(tokens, revoke));
byId("default-settings").addEventListener("change", () => showSettings(settings));

repeat(async () => healthView.show(await load("/v1/admin/health")), SECONDS.health);
repeat(refreshJobs, SECONDS.jobs);
repeat(async () => showCollections((await load("/v1/admin/collections")).items), SECONDS.collections);
repeat(refreshTokens, SECONDS.tokens);
repeat(async () => showRequests((await load("/v1/admin/requests")).items), SECONDS.requests);
load("/v1/admin/settings").then(({ items }) => showSettings((settings = items))).catch(showError);
