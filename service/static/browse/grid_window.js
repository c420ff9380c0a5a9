// Which rows of a long grid are in sight, so that only their tiles are in the document. Without the document.

/**
 * The tiles to show, from `first` to before `last`, and the height in pixels of the rows before and after them.
 * count: tiles of the list; top: pixels of the grid above the sight, negative if it begins below its upper edge;
 * height: of the sight; spare: rows beyond it at either end.
 */
export function visibleTiles({ count, columns, rowHeight, top, height, spare = 2 }) {
  const rows = Math.ceil(count / columns);
  const firstRow = Math.min(Math.max(0, Math.floor(top / rowHeight) - spare), Math.max(0, rows - 1));
  const lastRow = Math.min(rows, Math.max(firstRow, Math.ceil((top + height) / rowHeight) + spare));
  return {
    first: firstRow * columns,
    last: Math.min(count, lastRow * columns),
    before: firstRow * rowHeight,
    after: (rows - lastRow) * rowHeight,
  };
}

/** The position that a key moves to; undefined for other keys. */
export function movedPosition(key, position, { count, columns, page }) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageUp: -page * columns, PageDown: page * columns };
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  if (!(key in steps)) return undefined;
  const moved = position + steps[key];
  if (Math.abs(steps[key]) === columns && (moved < 0 || moved >= count)) return position;
  return Math.min(Math.max(moved, 0), count - 1);
}
