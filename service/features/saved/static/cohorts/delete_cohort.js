// Deleting a cohort, after a question.

import { request } from "../api.js";
import { byId } from "../dom.js";

let asked = null; // {id, done} of the open question

/** Ask whether to delete a cohort {id, title}; done(id) is called when that has happened. */
export function ask({ id, title }, done) {
  asked = { id, done };
  byId("delete-name").textContent = title;
  byId("delete-problem").hidden = true;
  byId("delete-dialog").showModal();
}

/** Connect the dialog. */
export function install() {
  byId("delete-cancel").addEventListener("click", () => byId("delete-dialog").close());
  byId("delete-confirm").addEventListener("click", async () => {
    try {
      await request(`/v1/cohorts/${encodeURIComponent(asked.id)}`, { method: "DELETE" });
      byId("delete-dialog").close();
      asked.done(asked.id);
    } catch (error) {
      byId("delete-problem").textContent = error.message;
      byId("delete-problem").hidden = false;
    }
  });
}
