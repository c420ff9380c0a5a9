// Light, dark or system theme, stored in this browser.

const KEY = "theme";
const THEMES = ["system", "dark", "light"];
const SIGNS = { system: "◐", dark: "●", light: "○" };

/** Read a stored value; null if there is none or storage is disabled. */
export function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Store a value, if storage is enabled. */
export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // storage is disabled: the value holds until the page is closed
  }
}

let theme = THEMES.includes(remembered(KEY)) ? remembered(KEY) : "system";

function apply() {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  if (!button) return;
  button.hidden = false;
  button.textContent = SIGNS[theme];
  const label = button.dataset[theme]; // from the page: this module runs before the messages of scripts are loaded
  button.title = `${label} (L)`;
  button.setAttribute("aria-label", label);
}

/** Switch to the next theme. */
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
