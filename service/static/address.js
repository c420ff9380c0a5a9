// The address of the page, which makes searches with collection images shareable.

const PARAMS = ["collection", "image", "region", "anywhere", "rerank", "parameters", "k", "where", "group_by", "own", "said", "view"];

/** Read the search from the current address; absent parameters are missing. */
export function read() {
  const query = new URLSearchParams(location.search);
  const params = {};
  for (const name of PARAMS) {
    if (query.get(name)) params[name] = query.get(name);
  }
  return params;
}

/** Build the address of a search, relative to the page. */
export function write(params) {
  const query = new URLSearchParams();
  for (const name of PARAMS) {
    if (params[name]) query.set(name, params[name]);
  }
  const text = query.toString();
  return text ? `?${text}` : location.pathname;
}
