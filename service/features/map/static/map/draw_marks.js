// Draws what lies over the points: query, results, the outline of an area, the image that is looked at.

import { toPixels } from "./camera.js";

const STAR = 13; // pixels from the middle to a tip

function drawStar(context, x, y) {
  context.beginPath();
  for (let tip = 0; tip < 10; tip += 1) {
    const radius = tip % 2 ? STAR * 0.45 : STAR;
    const angle = (Math.PI * tip) / 5 - Math.PI / 2;
    context.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
  }
  context.closePath();
}

function ring(context, [x, y], radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}

/** Stroke the current path so that it is seen on points of every colour. */
function outline(context, { ground, ink }, width) {
  context.strokeStyle = ground;
  context.lineWidth = width + 3;
  context.stroke();
  context.strokeStyle = ink;
  context.lineWidth = width;
  context.stroke();
}

const isEmpty = ({ query, hits, current, outline }) => !query && !hits.length && !current && !outline.length;

/** Draw marks {query, hits, current, outline}, all places of the map, in the colours of the canvas's frame. */
export function drawMarks(canvas, camera, size, ratio, marks) {
  if (isEmpty(marks) && canvas.dataset.empty) return; // an unchanged canvas costs a frame nothing
  canvas.dataset.empty = isEmpty(marks) ? "1" : "";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, size.width, size.height);
  if (isEmpty(marks)) return;
  const style = getComputedStyle(canvas.parentElement);
  const colours = { ink: style.color, ground: style.backgroundColor, accent: style.outlineColor };
  const at = ({ x, y }) => toPixels(camera, size, x, y);
  for (const hit of marks.hits) {
    ring(context, at(hit), 8);
    outline(context, colours, 2);
  }
  if (marks.query) {
    drawStar(context, ...at(marks.query));
    outline(context, colours, 1.5);
    context.fillStyle = "#ffd66b";
    context.fill();
  }
  if (marks.current) {
    ring(context, at(marks.current), 9);
    outline(context, { ...colours, ink: colours.accent }, 3);
  }
  if (marks.outline.length > 1) {
    context.beginPath();
    for (const [x, y] of marks.outline) context.lineTo(...at({ x, y }));
    context.closePath();
    context.globalAlpha = 0.12;
    context.fillStyle = colours.accent;
    context.fill();
    context.globalAlpha = 1;
    outline(context, { ...colours, ink: colours.accent }, 1.5);
  }
}
