// What all pages have: menus, dark or light colours, and other choices that this browser remembers.

/** Read a stored value; null if there is none or storage is disabled. */
export function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // storage is disabled: the value holds until the page is closed
  }
}

const other = () => (document.documentElement.dataset.theme === "light" ? "dark" : "light");

/** The button of the menu says what it switches to. */
const nameSwitch = () => byId("theme")?.replaceChildren(byId("theme").dataset[other()]);

/** Switch between dark and light; the service writes the next page in these colours. */
export function switchColours() {
  document.documentElement.dataset.theme = other();
  document.cookie = `cbir-theme=${document.documentElement.dataset.theme}; path=/; max-age=31536000; samesite=lax`; // a year
  nameSwitch();
}

const GAP = 6; // pixels between a menu and its button, and between a menu and the edge of the window

/** The place of a menu of this size beside a button, inside of a window. */
export function placeBeside(button, menu, window) {
  const fits = button.bottom + GAP + menu.height <= window.height - GAP;
  const top = fits ? button.bottom + GAP : Math.max(GAP, Math.min(button.top - GAP - menu.height, window.height - GAP - menu.height));
  const left = button.left + menu.width <= window.width - GAP ? button.left : button.right - menu.width;
  return { left: Math.max(GAP, Math.min(left, window.width - GAP - menu.width)), top };
}

function place(menu) {
  const button = document.querySelector(`[popovertarget="${menu.id}"]`);
  if (!button) return;
  const { left, top } = placeBeside(button.getBoundingClientRect(), menu.getBoundingClientRect(), { width: document.documentElement.clientWidth, height: innerHeight });
  Object.assign(menu.style, { left: `${left}px`, top: `${top}px` });
}

/** Connect the button of the colours, and menus: each is placed when it opens, and a choice in it closes it. */
export function install() {
  byId("theme")?.addEventListener("click", switchColours);
  nameSwitch();
  const open = () => document.querySelectorAll("[popover]:popover-open");
  document.addEventListener("toggle", (event) => event.target.matches?.("[popover]") && event.newState === "open" && place(event.target), true);
  addEventListener("resize", () => open().forEach(place));
  let isDismissed = false; // a click beside an open menu, but on the bars of buttons, only closes it
  document.addEventListener("pointerdown", ({ target }) => (isDismissed = open().length > 0 && !target.closest("[popover], [popovertarget], .top, .chips")), true);
  document.addEventListener("click", (event) => isDismissed && event.detail && (event.preventDefault(), event.stopPropagation()), true);
  document.addEventListener("click", (event) => {
    const choice = event.target.closest("[popover] :is(button, a)");
    if (choice && !choice.matches("[popovertarget], [data-stay]")) choice.closest("[popover]").hidePopover?.();
  });
}

export const byId = (id) => document.getElementById(id);
export const isTouched = () => matchMedia("(hover: none)").matches; // by fingers, which neither drop nor paste

/** Save a file {name, type} of a text or blob. */
export function saveFile(name, type, content) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([content].flat(), { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // a browser has read it by then
}

/** Copy `text`; false if the browser does not allow it. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // no permission, or not a secure context
  }
}
