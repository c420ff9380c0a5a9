// Draws the points as squares on a plain canvas, for browsers without WebGL.

import { toPixels } from "./camera.js";
import { PALE } from "./groups.js";

/** Create {setPoints, setLooks, draw} for a canvas. */
export function createPlainPoints(canvas) {
  const context = canvas.getContext("2d");
  let [x, y, looks] = [[], [], new Uint8Array()];
  return {
    setPoints(...places) {
      [x, y] = places;
    },
    setLooks(bytes) {
      looks = bytes;
    },
    draw(camera, size, diameter, ratio) {
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, size.width, size.height);
      let last = "";
      for (let step = 0; step < 2 * x.length; step += 1) {
        const point = step % x.length;
        const at = point * 4;
        if ((looks[at + 3] === PALE) !== step < x.length) continue; // pale ones first
        const [left, top] = toPixels(camera, size, x[point], y[point]);
        if (left < 0 || top < 0 || left > size.width || top > size.height) continue;
        const colour = `rgb(${looks[at]} ${looks[at + 1]} ${looks[at + 2]})`;
        if (colour !== last) context.fillStyle = last = colour;
        context.fillRect(left - diameter / 2, top - diameter / 2, diameter, diameter);
      }
    },
  };
}
