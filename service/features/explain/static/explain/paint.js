// Drawing of explanations on pictures: heat maps, and directions of edges.

const LEAST = 0.3; // of a match; weaker ones are not coloured
const NARROWEST = 0.1; // range of matches from clear to OPAQUE; smaller differences do not stand out
const OPAQUE = 150; // opacity of the best match, of 255
const LEAST_EDGES = 0.12; // share of a kind of edges that is drawn
const COLOURS = [[255, 96, 0], [255, 238, 80]]; // orange to yellow: seen on grey, also by those who see no red and green

// Directions of vertical, horizontal, 45 and 135 degree edges on the screen; other edges have none.
const DIRECTIONS = [[0, 1], [1, 0], [1, -1], [1, 1]];

/** The median of the values above 0 of a map; 0 without any. */
function middle(map) {
  const values = map.flat().filter((value) => value > 0).sort((a, b) => a - b);
  return values[values.length >> 1] ?? 0;
}

/** The range of matches that two maps are coloured in: from what is usual, in the map where it is lower, to the best. */
export function heatRange({ query_map: query, answer_map: answer }) {
  const least = Math.max(LEAST, Math.min(middle(query), middle(answer)));
  return { least, most: Math.max(...query.flat(), ...answer.flat(), least + NARROWEST) };
}

/** The colour of a match from 0 to 1 as [red, green, blue, opacity], each from 0 to 255; clear up to `least` of a range. */
export function heatColour(match, { least, most }) {
  const strength = Math.min(Math.max((match - least) / (most - least), 0), 1);
  const [weak, strong] = COLOURS;
  return [...weak.map((value, index) => Math.round(value + (strong[index] - value) * strength)), Math.round(OPAQUE * strength)];
}

/** The pixels of a map of rows, for an ImageData of as many columns and rows. */
export function heatPixels(map, range) {
  return new Uint8ClampedArray(map.flat().flatMap((match) => heatColour(match, range)));
}

/** The strongest kind of edges in each part of an image, as {row, column, direction, share}; direction is null for edges of no direction. */
export function strongestEdges(edges) {
  const strongest = [];
  edges.forEach((cells, row) => cells.forEach((shares, column) => {
    const share = Math.max(...shares);
    if (share >= LEAST_EDGES) strongest.push({ row, column, direction: DIRECTIONS[shares.indexOf(share)] ?? null, share });
  }));
  return strongest;
}

/** Paint a map in a range of matches over a whole canvas. */
export function paintHeat(canvas, map, range) {
  const small = document.createElement("canvas");
  [small.width, small.height] = [map[0].length, map.length];
  small.getContext("2d").putImageData(new ImageData(heatPixels(map, range), small.width, small.height), 0, 0);
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = "high";
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
}

/** Paint a line in the direction of the strongest edges of each part of an image; a ring for those of no direction. */
export function paintEdges(canvas, edges) {
  const context = canvas.getContext("2d");
  const [width, height] = [canvas.width / edges[0].length, canvas.height / edges.length];
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.lineWidth = Math.max(canvas.width, canvas.height) / 80;
  context.lineCap = "round";
  for (const { row, column, direction, share } of strongestEdges(edges)) {
    const [x, y] = [(column + 0.5) * width, (row + 0.5) * height];
    const reach = Math.min(width, height) * 0.35;
    context.strokeStyle = `rgb(255 180 40 / ${Math.round(40 + 60 * Math.min(share * 2, 1))}%)`;
    context.beginPath();
    if (direction) {
      const scale = reach / Math.hypot(...direction);
      context.moveTo(x - direction[0] * scale, y - direction[1] * scale);
      context.lineTo(x + direction[0] * scale, y + direction[1] * scale);
    } else context.arc(x, y, reach / 2, 0, 2 * Math.PI);
    context.stroke();
  }
}
