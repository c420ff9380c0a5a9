// Choosing a region of the picture: by dragging on it, or with the keyboard.

const LEAST = 8; // pixels of the image, either side
const DRAGGED = 6; // pixels of the screen; less is a click

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

/**
 * Let the reader choose a region in `stage`, which shows an image fitted in and centred; `box` is the frame around it.
 * chosen(region): called with [x, y, width, height] in pixels of the image. home: has the focus when it is left.
 */
export class Cropper {
  constructor(stage, box, home, chosen) {
    Object.assign(this, { stage, box, home, chosen, size: null, region: null, start: null });
    stage.addEventListener("pointerdown", (event) => this.down(event));
    stage.addEventListener("pointermove", (event) => this.start && this.move(event));
    stage.addEventListener("pointerup", (event) => this.start && this.up(event));
    stage.addEventListener("pointercancel", () => this.forget());
    box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(stage);
  }

  /** Show a region, or none, of an image of `size` {width, height}; without a size nothing can be chosen. */
  set(size, region) {
    Object.assign(this, { size, region, settled: region, start: null });
    this.draw();
  }

  /** Begin with the keyboard: the middle of the image, or the region there is. */
  begin() {
    if (!this.size) return;
    const { width, height } = this.size;
    this.region ??= [width / 4, height / 4, width / 2, height / 2].map(Math.round);
    this.draw();
    this.box.focus();
  }

  /** Where the image lies in the stage, and how many screen pixels one of its own has. */
  fitted() {
    const { width, height } = this.stage.getBoundingClientRect();
    const scale = Math.min(width / this.size.width, height / this.size.height);
    return { scale, left: (width - this.size.width * scale) / 2, top: (height - this.size.height * scale) / 2 };
  }

  /** The point of the image under the pointer. */
  point(event) {
    const stage = this.stage.getBoundingClientRect();
    const { scale, left, top } = this.fitted();
    const x = (event.clientX - stage.left - left) / scale;
    const y = (event.clientY - stage.top - top) / scale;
    return [clamp(Math.round(x), 0, this.size.width), clamp(Math.round(y), 0, this.size.height)];
  }

  down(event) {
    if (!this.size || event.button || !event.isPrimary) return;
    event.preventDefault();
    this.stage.setPointerCapture(event.pointerId);
    this.start = { point: this.point(event), x: event.clientX, y: event.clientY };
  }

  move(event) {
    const { point, x, y } = this.start;
    if (Math.hypot(event.clientX - x, event.clientY - y) < DRAGGED) return;
    const [left, right] = [point[0], this.point(event)[0]].sort((a, b) => a - b);
    const [top, bottom] = [point[1], this.point(event)[1]].sort((a, b) => a - b);
    this.region = [left, top, right - left, bottom - top];
    this.draw();
  }

  up() {
    this.start = null;
    if (this.region === this.settled) return;
    if (this.region[2] >= LEAST && this.region[3] >= LEAST) this.settle();
    else this.forget();
  }

  settle() {
    this.settled = this.region;
    this.chosen(this.region);
  }

  /** Back to the region that was searched with. */
  forget() {
    this.start = null;
    this.region = this.settled;
    this.draw();
  }

  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) this.shift(step, event.shiftKey);
    else if (event.key === "Enter") this.settle();
    else if (event.key === "Escape") {
      this.forget();
      this.home.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Move the region a fiftieth of the image, or size it. */
  shift([right, down], sizing) {
    let [x, y, width, height] = this.region;
    const { width: most, height: highest } = this.size;
    const along = right * Math.max(1, Math.round(most / 50));
    const across = down * Math.max(1, Math.round(highest / 50));
    if (sizing) {
      width = clamp(width + along, Math.min(LEAST, most), most - x);
      height = clamp(height + across, Math.min(LEAST, highest), highest - y);
    } else {
      x = clamp(x + along, 0, most - width);
      y = clamp(y + across, 0, highest - height);
    }
    this.region = [x, y, width, height];
    this.draw();
  }

  draw() {
    this.box.hidden = !this.region || !this.size;
    if (this.box.hidden) return;
    const { scale, left, top } = this.fitted();
    const [x, y, width, height] = this.region;
    this.box.style.left = `${left + x * scale}px`;
    this.box.style.top = `${top + y * scale}px`;
    this.box.style.width = `${width * scale}px`;
    this.box.style.height = `${height * scale}px`;
  }
}
