// Small helpers for the document.

/** The element with this id. */
export const byId = (id) => document.getElementById(id);
