// Light, dark, or as the system has it; remembered by this browser.

const KEY = "theme";
const THEMES = ["system", "dark", "light"];
const SIGNS = { system: "◐", dark: "●", light: "○" };

/** What the browser remembers, null where it may not. */
export function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Remember; only for this page where the browser may not. */
export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // storage is switched off: the choice holds until the page is left
  }
}

let theme = THEMES.includes(remembered(KEY)) ? remembered(KEY) : "system";

function apply() {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  if (!button) return;
  button.hidden = false;
  button.textContent = SIGNS[theme];
  button.title = `Colours: ${theme} (L)`;
  button.setAttribute("aria-label", `Colours: ${theme}`);
}

/** Take the next theme. */
export function next() {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  remember(KEY, theme);
  apply();
}

apply();
document.addEventListener("DOMContentLoaded", () => {
  apply();
  document.getElementById("theme").addEventListener("click", next);
});
