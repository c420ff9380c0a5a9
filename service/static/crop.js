// Selecting a region of the picture, by dragging on it or with the keyboard.

const MIN_SIDE = 8; // image pixels
const MIN_DRAG = 6; // screen pixels; less is a click

const clamp = (value, min, max) => Math.min(Math.max(value, min), max);

/**
 * Lets the user select a region in `stage`, which shows an image centred and scaled to fit; `box` is its frame.
 * onSelect(region): called with [x, y, width, height] in image pixels. returnFocus: gets the focus on Escape.
 * place(): {scale, x, y} of the image where it is zoomed, with shifts in parts of the stage.
 */
export class Cropper {
  constructor(stage, box, returnFocus, onSelect, place = () => ({ scale: 1, x: 0, y: 0 })) {
    Object.assign(this, { stage, box, returnFocus, onSelect, place, size: null, region: null, start: null });
    stage.addEventListener("pointerdown", (event) => this.down(event));
    stage.addEventListener("pointermove", (event) => this.start && this.move(event));
    stage.addEventListener("pointerup", (event) => this.start && this.up(event));
    stage.addEventListener("pointercancel", () => this.revert());
    box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(stage);
  }

  /** Show a region, or none, of an image of `size` {width, height}; without a size, nothing can be selected. */
  set(size, region) {
    Object.assign(this, { size, region, searched: region, start: null });
    this.draw();
  }

  /** Start with the keyboard, from the present region or the middle of the image. */
  begin() {
    if (!this.size) return;
    const { width, height } = this.size;
    this.region ??= [width / 4, height / 4, width / 2, height / 2].map(Math.round);
    this.draw();
    this.box.focus();
  }

  /** The image in the stage: its left and top edge, and screen pixels per image pixel. */
  fit() {
    const { width, height } = this.stage.getBoundingClientRect();
    const { scale: zoom, x, y } = this.place();
    const scale = zoom * Math.min(width / this.size.width, height / this.size.height);
    const left = width * x + (width - this.size.width * scale) / 2;
    return { scale, left, top: height * y + (height - this.size.height * scale) / 2 };
  }

  /** The image point under the pointer. */
  point(event) {
    const stage = this.stage.getBoundingClientRect();
    const { scale, left, top } = this.fit();
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
    if (Math.hypot(event.clientX - x, event.clientY - y) < MIN_DRAG) return;
    const [left, right] = [point[0], this.point(event)[0]].sort((a, b) => a - b);
    const [top, bottom] = [point[1], this.point(event)[1]].sort((a, b) => a - b);
    this.region = [left, top, right - left, bottom - top];
    this.draw();
  }

  up() {
    this.start = null;
    if (this.region === this.searched) return;
    if (this.region[2] >= MIN_SIDE && this.region[3] >= MIN_SIDE) this.select();
    else this.revert();
  }

  select() {
    this.searched = this.region;
    this.onSelect(this.region);
  }

  /** Return to the region of the last search. */
  revert() {
    this.start = null;
    this.region = this.searched;
    this.draw();
  }

  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) this.shift(step, event.shiftKey);
    else if (event.key === "Enter") this.select();
    else if (event.key === "Escape") {
      this.revert();
      this.returnFocus.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Move the region by a fiftieth of the image, or resize it. */
  shift([right, down], resize) {
    let [x, y, width, height] = this.region;
    const { width: maxWidth, height: maxHeight } = this.size;
    const along = right * Math.max(1, Math.round(maxWidth / 50));
    const across = down * Math.max(1, Math.round(maxHeight / 50));
    if (resize) {
      width = clamp(width + along, Math.min(MIN_SIDE, maxWidth), maxWidth - x);
      height = clamp(height + across, Math.min(MIN_SIDE, maxHeight), maxHeight - y);
    } else {
      x = clamp(x + along, 0, maxWidth - width);
      y = clamp(y + across, 0, maxHeight - height);
    }
    this.region = [x, y, width, height];
    this.draw();
  }

  draw() {
    this.box.hidden = !this.region || !this.size;
    if (this.box.hidden) return;
    const { scale, left, top } = this.fit();
    const [x, y, width, height] = this.region;
    this.box.style.left = `${left + x * scale}px`;
    this.box.style.top = `${top + y * scale}px`;
    this.box.style.width = `${width * scale}px`;
    this.box.style.height = `${height * scale}px`;
  }
}
