// Parts that scripts of features add to a page; the page's own script, which comes after them, calls their functions.

const parts = [];

/** Add an object with functions that the page calls. */
export function addPart(part) {
  parts.push(part);
}

/** Call the function `name` of each part that has one; returns what they return. */
export function callParts(name, ...values) {
  return parts.filter((part) => part[name]).map((part) => part[name](...values));
}
