// Keys on the map: they move it below a cross in its middle.

const STEP = 60; // pixels
const ZOOM = 1.4;
const MOVES = { ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };

/** Connect a view; onOpen(): the image in the middle is chosen. */
export function connectKeys(view, onOpen) {
  const canvas = view.overlay;
  const showCross = (cross) => {
    view.marks.cross = cross;
    view.draw();
    view.onMove();
  };
  canvas.addEventListener("focus", () => showCross(canvas.matches(":focus-visible")));
  canvas.addEventListener("blur", () => showCross(false));
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in MOVES) view.pan(...MOVES[event.key]);
    else if (event.key === "+" || event.key === "=") view.zoom(ZOOM);
    else if (event.key === "-") view.zoom(1 / ZOOM);
    else if (event.key === "0" || event.key === "Home") view.showAll();
    else if (event.key === "Enter" || event.key === " ") onOpen();
    else return;
    if (!view.marks.cross) showCross(true);
    event.preventDefault();
  });
}
