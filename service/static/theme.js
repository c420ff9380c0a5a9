// Dark or light colours, and other choices that this browser remembers.

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

const COOKIE = "cbir-theme"; // so that the service writes the page in these colours
const YEAR = 365 * 24 * 3600; // seconds

const other = () => (document.documentElement.dataset.theme === "light" ? "dark" : "light");

/** Switch between dark and light. */
export function next() {
  document.documentElement.dataset.theme = other();
  document.cookie = `${COOKIE}=${document.documentElement.dataset.theme}; path=/; max-age=${YEAR}; samesite=lax`;
  name();
}

/** The button says what it switches to. */
function name() {
  const button = document.getElementById("theme");
  if (button) button.textContent = button.dataset[other()];
}

/** Connect the button of the menu. */
export function install() {
  document.getElementById("theme")?.addEventListener("click", next);
  name();
}
