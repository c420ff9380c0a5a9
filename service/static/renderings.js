// Renderings of the user's files that were lately shown, or are fetched before they are.

const MAX_KEPT = 48;

/** Keeps what `render({file, frame, window})` resolves with. */
export class Renderings {
  constructor(render) {
    Object.assign(this, { render, kept: [] });
  }

  /** The rendering of a query's file, frame and window. */
  get({ file, frame, window }) {
    const isSame = (entry) => entry.file === file && entry.frame === frame && String(entry.window) === String(window);
    const found = this.kept.find(isSame);
    if (found) return found.promise;
    const promise = this.render({ file, frame, window });
    this.kept = [{ file, frame, window, promise }, ...this.kept].slice(0, MAX_KEPT);
    promise.catch(() => (this.kept = this.kept.filter((entry) => entry.promise !== promise)));
    return promise;
  }
}
