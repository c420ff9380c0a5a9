// A person's work on a page: shows an item, takes the answer, and goes on.

import { byId } from "/static/dom.js";
import { tr } from "/static/translate.js";
import { Clock } from "./clock.js";
import { cover, coverWaiting, forgetRefusal, showError } from "./covers.js";
import { Grades } from "./grades.js";
import { ItemQueue } from "./item_queue.js";
import { showRate } from "./progress.js";
import { Stage } from "./stage.js";
import { Supply } from "./supply.js";
import { TASKS } from "./tasks.js";

const REFILL_BELOW = 5; // queued items
const RETRY = 2000; // ms
const BUTTONS = ["first", "alike", "second", "skip"];

export class Session {
  /** taskName: of TASKS. answers: Answers of the person. */
  constructor(taskName, answers) {
    this.task = { ...TASKS[taskName], name: taskName };
    this.isPairs = taskName === "pairs";
    Object.assign(this, { answers, clock: new Clock(), queue: new ItemQueue() });
    this.grades = new Grades((image, grade) => (this.isPairs ? this.grade(image, grade) : this.answer(grade)));
    this.stage = new Stage(this.queue, { onError: showError, onDraw: () => this.grades.draw() });
    this.supply = new Supply(this.queue, this.task, answers, {
      onFirst: (response) => this.takeOver(response),
      onItems: (progress) => {
        this.stage.preload();
        if (!this.queue.current) this.advance(progress);
      },
    });
  }

  /** Let the person answer, or not. */
  enable(isEnabled) {
    for (const id of BUTTONS) if (byId(id)) byId(id).disabled = !isEnabled;
    this.grades.disabled = !isEnabled;
    byId("undo").disabled = this.clock.isPaused || !this.answers.history.length;
  }

  /** Take over what was judged before the page was opened. */
  takeOver({ history, grades }) {
    this.answers.load(history);
    for (const [image, grade] of Object.entries(grades)) this.grades.set(image, grade);
    this.updateRate();
  }

  updateRate() {
    const entries = this.answers.history.filter((entry) => this.task.itemOf(entry));
    showRate(entries.map(({ seconds }) => seconds), this.task.name);
  }

  /** Show the next item; progress: of a response that was just handled. */
  advance(progress = null) {
    if (this.queue.advance()) this.show();
    else {
      this.enable(false);
      this.coverEmpty(progress);
    }
    if (this.queue.following.length < REFILL_BELOW && !progress) this.supply.refill();
    this.stage.preload();
  }

  coverEmpty(progress) {
    const isDone = this.isPairs ? progress?.finished : progress?.graded_by_you >= progress?.images;
    const isIdle = progress && !this.answers.outbox.items.length && progress.learning !== "learning";
    if (isDone) cover("finished");
    else if (isIdle) coverWaiting(tr("There is nothing for you to judge at the moment: other people have the rest."));
    else coverWaiting();
    if (progress && !isDone) this.supply.refillLater();
  }

  async show() {
    const item = this.queue.current;
    this.clock.stop();
    let loaded = this.stage.loaded(item);
    if (!loaded) {
      if (this.stage.isEmpty) coverWaiting();
      this.enable(false);
      try {
        loaded = await this.stage.load(item);
      } catch (error) {
        if (item === this.queue.current) this.handleFailure(item, error);
        return;
      }
      if (item !== this.queue.current) return;
    }
    this.stage.draw(item, loaded);
    this.clock.start();
    cover(this.clock.isPaused ? "paused" : null);
    this.enable(!this.clock.isPaused);
  }

  /** Handle an item that cannot be shown: skip it if an image is gone, else try again. */
  handleFailure(item, error) {
    showError(error);
    item.loading = null;
    if (error.kind === "refused") {
      this.send(this.task.skipped, 0);
      this.advance();
    } else if (error.kind !== "login") {
      setTimeout(() => item === this.queue.current && this.show(), RETRY);
    }
  }

  /** Send an answer about the current item. */
  send(decision, milliseconds) {
    const [address, fields] = this.task.request(this.queue.current, decision);
    const { first, second, image } = fields;
    this.queue.markAnswered();
    this.answers.send(address, fields, milliseconds, image ? this.imageEntry(image) : { first, second });
    if (image) this.grades.set(image, decision);
  }

  /** What the undo of a grade needs. */
  imageEntry(image) {
    return { image, before: this.grades.given.get(image) };
  }

  /** Answer the current item, unless it cannot be answered now. */
  answer(decision) {
    if (this.clock.isPaused || !this.queue.current) return;
    forgetRefusal();
    this.send(decision, this.clock.read());
    this.updateRate();
    this.advance();
  }

  /** Grade one image of a pair, which stays on the screen; the time does not count for the pair. */
  grade(image, grade) {
    if (this.clock.isPaused || !this.queue.current) return;
    forgetRefusal();
    this.answers.send("/annotate/grades", { image, grade }, this.clock.read(), this.imageEntry(image));
    this.grades.set(image, grade);
    this.clock.start();
    this.enable(true);
  }

  undo() {
    const last = this.clock.isPaused ? null : this.answers.undo();
    if (!last) return;
    if (last.image) this.grades.set(last.image, last.before);
    byId("undo").disabled = !this.answers.history.length;
    const item = this.task.itemOf(last);
    if (!item) return;
    this.queue.takeBack(item);
    this.updateRate();
    this.show();
  }

  pause() {
    if (this.clock.isPaused) return;
    this.clock.pause(true);
    cover("paused");
    this.enable(false);
    byId("resume").focus();
  }

  resume() {
    if (!this.clock.isPaused) return;
    this.clock.pause(false);
    cover(this.queue.current ? null : "waiting");
    this.enable(Boolean(this.queue.current));
    document.activeElement?.blur();
    if (!this.queue.current) this.supply.refill();
  }
}
