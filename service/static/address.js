// The address of the page, which makes searches with collection images shareable.

const PARAMS = ["collection", "image", "region", "anywhere", "rerank", "parameters", "k", "where", "group_by", "own", "said", "view"];

const withValue = (pairs) => pairs.filter(([name, value]) => PARAMS.includes(name) && value);

/** Read the search from the current address; absent parameters are missing. */
export const read = () => Object.fromEntries(withValue([...new URLSearchParams(location.search)]));

/** Build the address of a search, relative to the page. */
export function write(params) {
  const text = new URLSearchParams(withValue(PARAMS.map((name) => [name, params[name]]))).toString();
  return text ? `?${text}` : location.pathname;
}
