// Buttons of the grades: a row for each picture on the screen.

import { byId } from "/static/dom.js";

const buttons = [...document.querySelectorAll("[data-grade]")];

/** The image that a button grades. */
const imageOf = (button) => byId("panes").dataset[button.closest("[data-side]").dataset.side];
const gradeOf = (button) => (button.dataset.grade === "" ? null : Number(button.dataset.grade));

export class Grades {
  /** onGrade(image, grade) is called when a button is pressed; the grade is null if the image cannot be judged. */
  constructor(onGrade) {
    this.given = new Map(); // grade by image
    for (const button of buttons) {
      button.addEventListener("click", () => {
        onGrade(imageOf(button), gradeOf(button));
        button.blur(); // so that keys judge again
      });
    }
  }

  /** Set the grade of an image; undefined removes it. */
  set(image, grade) {
    if (grade === undefined) this.given.delete(image);
    else this.given.set(image, grade);
    this.draw();
  }

  /** Mark the grades of the images on the screen. */
  draw() {
    for (const button of buttons) {
      button.setAttribute("aria-pressed", this.given.get(imageOf(button)) === gradeOf(button));
    }
  }

  set disabled(disabled) {
    for (const button of buttons) button.disabled = disabled;
  }

  /** Move the focus to the grades of the left image. */
  focus() {
    buttons[0]?.focus();
  }

  /** Press the button with this digit. */
  press(digit) {
    buttons.find((button) => button.dataset.key === digit && !button.disabled)?.click();
  }
}
