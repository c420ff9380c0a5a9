// The picture of the points is larger than what is in sight, and moves with the map until it must be drawn again. Without the document.

export const MARGIN = 0.25; // on each side, as a share of what is in sight; as in map.css
const MOST = 1.5; // times larger or smaller than drawn

/** The size of the picture for a size in sight. */
export const pictureSize = ({ width, height }) => ({ width: width * (1 + 2 * MARGIN), height: height * (1 + 2 * MARGIN) });

/** The CSS transform that shows a picture drawn for the camera `drawn` as `camera` sees it. */
export function transformOf(drawn, camera) {
  const [right, down] = [(drawn.x - camera.x) * camera.scale, (camera.y - drawn.y) * camera.scale];
  return `translate(${right}px, ${down}px) scale(${camera.scale / drawn.scale})`;
}

/** Whether a picture drawn for the camera `drawn` has all of the map that `camera` sees, at nearly its size. */
export function isKept(drawn, camera, size) {
  const factor = camera.scale / drawn.scale;
  if (factor > MOST || factor < 1 / MOST) return false;
  const whole = pictureSize(size);
  return spans(drawn.x, camera.x, whole.width / drawn.scale, size.width / camera.scale)
    && spans(drawn.y, camera.y, whole.height / drawn.scale, size.height / camera.scale);
}

/** Whether a drawn span has all of the map (-1 to 1) that a seen one has. */
function spans(drawn, seen, drawnLength, seenLength) {
  const [low, high] = [Math.max(-1, seen - seenLength / 2), Math.min(1, seen + seenLength / 2)];
  return drawn - drawnLength / 2 <= low && drawn + drawnLength / 2 >= high;
}
