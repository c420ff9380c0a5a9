// The further results of a group, as they are added below its best one.

const STEP = 24; // members that are loaded at once
const MAX_SIZE = 100; // results of a group in one answer

/** The group size to search with to see more of the group of `hit` than are shown. */
export function nextSize(hit) {
  const shown = 1 + (hit.members?.length ?? 0);
  return Math.min(shown + Math.min(STEP, hit.group.more), MAX_SIZE);
}

/** The group of `hit` as the results of a larger answer have it: {members, group}; members have ranks such as "3.1". */
export function membersOf(hit, results) {
  const found = results.filter(({ group }) => group?.key === hit.group.key);
  const members = found
    .filter(({ image_id }) => image_id !== hit.image_id)
    .map((member, index) => ({ ...member, group: null, rank: `${hit.rank}.${index + 1}` }));
  const more = found.length && found.length < MAX_SIZE ? found[0].group.more : 0;
  return { members, group: { ...hit.group, more } };
}
