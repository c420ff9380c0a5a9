// The page's address: a search from an image of the collection can be shared and gone back to.

const NAMES = ["collection", "image", "region", "rerank", "k", "where", "said", "view"];

/** What the present address asks for; names it does not have are missing. */
export function read() {
  const given = new URLSearchParams(location.search);
  const asked = {};
  for (const name of NAMES) {
    if (given.get(name)) asked[name] = given.get(name);
  }
  return asked;
}

/** The address of a search, relative to the page. */
export function write(asked) {
  const query = new URLSearchParams();
  for (const name of NAMES) {
    if (asked[name]) query.set(name, asked[name]);
  }
  const text = query.toString();
  return text ? `?${text}` : location.pathname;
}
