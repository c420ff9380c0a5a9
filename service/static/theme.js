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

const other = () => (document.documentElement.dataset.theme === "light" ? "dark" : "light");

/** Switch between dark and light. */
export function next() {
  document.documentElement.dataset.theme = other();
  remember("theme", document.documentElement.dataset.theme);
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
