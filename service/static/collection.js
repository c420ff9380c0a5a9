// Which of the service's collections is searched, and where its images are.

const at = (id) => document.getElementById(id);
const CHANGING = ["facts", "filter-field", "keys", "where-hint", "start", "grade-columns"]; // parts of the page that tell of it

/** The name of the collection on the page; "" where the service has only one. */
export function current() {
  return at("query").dataset.collection ?? "";
}

/** The name that an address means which may name none: the first one's; "" where there is only one. */
export function meant(name) {
  return at("collection") ? name || at("collection").options[0].value : "";
}

/** The address of an image of a collection, or of a part of it such as "/picture". */
export function imageAddress(image, part = "", { collection = current(), region } = {}) {
  const query = new URLSearchParams();
  if (collection) query.set("collection", collection);
  if (region) query.set("region", region.join(","));
  const text = query.toString();
  return `/v1/images/${encodeURIComponent(image)}${part}${text && `?${text}`}`;
}

/** Show another collection: what the page says of it is taken from `other`, its own page as text. */
export function wear(name, other) {
  const page = new DOMParser().parseFromString(other, "text/html");
  if (!page.getElementById("start")) throw new Error("not the page of a collection");
  for (const id of CHANGING) {
    const part = page.getElementById(id);
    at(id).replaceChildren(...part.childNodes);
    if (id === "filter-field") at(id).hidden = part.hidden;
  }
  at("query").dataset.collection = name;
  at("collection").value = name;
}
