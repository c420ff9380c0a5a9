// The order of the slices of a series. Without the document.

/** Compare UIDs by their numbers, so that 1.10 follows 1.9. */
export function compareUids(a, b) {
  const left = a.split(".");
  const right = b.split(".");
  for (let index = 0; index < Math.min(left.length, right.length); index += 1) {
    // Components may have 39 digits, too many for a number: the longer one is the larger.
    const order = left[index].length - right[index].length || (left[index] < right[index] ? -1 : Number(left[index] > right[index]));
    if (order) return order;
  }
  return left.length - right.length;
}

/** Images in the order of series, instance and frame. */
export function inOrder(images) {
  return [...images].sort(
    (a, b) => compareUids(a.series, b.series) || compareUids(a.instance, b.instance) || (a.frame ?? 0) - (b.frame ?? 0),
  );
}

/** The slice that a key or a turn of the wheel leads to; undefined for other keys. */
export function movedSlice(key, slice, count) {
  const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: 10, PageUp: -10 };
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  return key in steps ? Math.min(Math.max(slice + steps[key], 0), count - 1) : undefined;
}
