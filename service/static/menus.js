// Menus that stay on the screen: elements with `popover`, placed beside the button that opens them.

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

/** Place each menu when it opens; a choice in one closes it. */
export function install() {
  const open = () => document.querySelectorAll("[popover]:popover-open");
  document.addEventListener("toggle", (event) => event.target.matches?.("[popover]") && event.newState === "open" && place(event.target), true);
  addEventListener("resize", () => open().forEach(place));
  document.addEventListener("click", (event) => {
    const choice = event.target.closest("[popover] :is(button, a)");
    if (choice && !choice.matches("[popovertarget], [data-stay]")) choice.closest("[popover]").hidePopover?.();
  });
}
