// What matches in the reading view: its switch, and drawings over its pictures.

import { element } from "../dom.js";
import { state } from "../page_state.js";
import { tr } from "../translate.js";
import { bars } from "./parts.js";
import { paintings } from "./paintings.js";

/** Whether a viewer shows what was searched with. */
const isQuery = ({ slice }, { image, file, frame }) => Boolean(slice) && (image ? slice.id === image : slice.file === file && (slice.frame ?? 1) === (frame ?? 1));

export class ReadingPart {
  /** explanationOf(image): a promise of it; isShown(), isOffered(): whether explanations are on, and there are some; toggle(): switch them. */
  constructor(options) {
    Object.assign(this, options, { view: null });
  }

  /** Draw in a reading view; its parts are added to it once. */
  show(view) {
    if (!this.view) this.addTo(view);
    this.draw();
  }

  addTo(view) {
    this.view = view;
    this.button = Object.assign(element("button", "button small", tr("Why similar")), { type: "button", title: "H" });
    this.button.addEventListener("click", this.toggle);
    const opacity = Object.assign(element("input", ""), { type: "range", min: 0, max: 100, value: 100 });
    opacity.addEventListener("input", () => {
      for (const { viewer } of view.panes) Object.assign(viewer, { overlayOpacity: opacity.value / 100 }).redraw();
    });
    this.shares = element("div", "part-shares");
    const hint = element("p", "hint", tr("It shows what the search compares, and is no diagnosis."));
    this.box = element("section", "explanation", element("label", "", tr("Overlay"), " ", opacity), this.shares, hint);
    this.box.setAttribute("aria-label", tr("What matches"));
    view.switches.append(this.button);
    view.extras.append(this.box);
    for (const name of ["cbir-slice", "cbir-ready"]) view.dialog.addEventListener(name, () => this.draw()); // maps are of the images that were compared
    view.dialog.addEventListener("keydown", (event) => {
      if (event.key.toLowerCase() !== "h" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input")) return;
      event.preventDefault();
      event.stopPropagation();
      this.toggle();
    });
  }

  async draw() {
    const { view } = this;
    if (!view) return;
    this.button.hidden = !this.isOffered();
    this.button.setAttribute("aria-pressed", String(this.isShown()));
    this.box.hidden = !view.dialog.open || !this.isShown();
    for (const { viewer } of view.panes) viewer.overlay = null;
    this.shares.replaceChildren();
    if (!this.box.hidden) await Promise.all(view.shown.map((pane, index) => this.drawOver(pane, !index)));
  }

  /** Draw over a result, and for the first one over the query too. */
  async drawOver(pane, isFirst) {
    const { result, viewer } = pane;
    const explanation = await this.explanationOf(result.id);
    if (pane.result !== result || !explanation || !this.isShown()) return;
    const query = this.view.panes[0]?.viewer;
    const drawn = paintings(explanation, state.shownQuery);
    if (viewer.picture && pane.image === result.id) viewer.overlay = drawn.answer;
    if (!isFirst) return;
    if (explanation.shares) this.shares.replaceChildren(bars(explanation.shares));
    if (query?.picture && isQuery(query, state.shownQuery)) query.overlay = drawn.query;
  }
}
