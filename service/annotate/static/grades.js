// Grades of single images: a row of buttons for each of both pictures, if the study has grades.

import { byId } from "/static/dom.js";

const buttons = [...document.querySelectorAll("[data-grade]")];

function imageOf(button) {
  return byId("panes").dataset[button.closest("[data-side]").dataset.side];
}

export class Grades {
  /** onGrade(image, grade) is called when a button is pressed. */
  constructor(onGrade) {
    this.given = new Map(); // grade by image
    for (const button of buttons) {
      button.addEventListener("click", () => {
        onGrade(imageOf(button), Number(button.dataset.grade));
        button.blur(); // so that keys judge the pair again
      });
    }
  }

  /** Set the grade of an image; null removes it. */
  set(image, grade) {
    if (grade === null) this.given.delete(image);
    else this.given.set(image, grade);
    this.draw();
  }

  /** Mark the grades of the images on the screen. */
  draw() {
    for (const button of buttons) {
      button.setAttribute("aria-pressed", this.given.get(imageOf(button)) === Number(button.dataset.grade));
    }
  }

  set disabled(disabled) {
    for (const button of buttons) button.disabled = disabled;
  }

  /** Move the focus to the grades of the left image. */
  focus() {
    buttons[0]?.focus();
  }
}
