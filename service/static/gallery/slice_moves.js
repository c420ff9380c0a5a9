// Moves from slice to slice. Without the document.

/** The slice that a key or a turn of the wheel leads to; undefined for other keys. */
export function movedSlice(key, slice, count) {
  const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: 10, PageUp: -10 };
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  return key in steps ? Math.min(Math.max(slice + steps[key], 0), count - 1) : undefined;
}
