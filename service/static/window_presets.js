// Windows for CT in Hounsfield units, and changing a window by dragging, as OHIF has them.

import { tr } from "./translate.js";

export const PRESETS = [
  { name: tr("Soft tissue"), window: [40, 400] },
  { name: tr("Lung"), window: [-600, 1500] },
  { name: tr("Bone"), window: [480, 2500] },
  { name: tr("Brain"), window: [40, 80] },
  { name: tr("Liver"), window: [90, 150] },
];

const WHOLE_RANGE = 1000; // screen pixels of a drag over half of all values

/** The window after a drag: to the right wider, down darker. */
export function dragged([center, width], right, down, [least, greatest]) {
  const span = greatest - least;
  const step = span > WHOLE_RANGE ? Math.max(1, span / 2 / WHOLE_RANGE) : span / WHOLE_RANGE;
  const narrowest = span > 32 ? 1 : span / 512 || 1;
  return [center + down * step, Math.max(width + right * step, narrowest)];
}
