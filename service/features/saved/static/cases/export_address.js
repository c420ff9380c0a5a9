// The address of a teaching file.

/** The address of the file of a case in a format, with these label keys and ranks of results. */
export function exportAddress(id, format, keys, ranks) {
  const query = new URLSearchParams({ format });
  for (const key of keys.length ? keys : [""]) query.append("label_keys", key);
  for (const rank of ranks.length ? ranks : [0]) query.append("ranks", rank);
  return `/v1/cases/${encodeURIComponent(id)}/export?${query}`;
}
