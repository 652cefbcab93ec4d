// The page's menus: details.rp-menu with a .rp-menu-list. A click elsewhere closes them, as it does the model's notice; so does
// Escape, by player/stop_key.js.

export const MENU = ":is(details.rp-menu, details.rp-model-notice)[open]";
const MARGIN = 8; // pixels between a list and the edges of the page

// Closes a menu; its button takes the focus, which would otherwise be lost.
export function closeMenu(menu) {
  menu.open = false;
  menu.querySelector("summary").focus();
}

// Text that is selected beyond the edge of a menu also ends in a click elsewhere.
export function closeFromOutside() {
  let pressed = null;
  document.addEventListener("pointerdown", ({ target }) => (pressed = target), true);
  document.addEventListener("click", ({ target }) => {
    for (const menu of document.querySelectorAll(MENU)) if (!menu.contains(target) && !menu.contains(pressed)) menu.open = false;
    pressed = null;
  });
}

// Moves the list of each menu that is opened into the page: a list beside a button near the right edge would end outside. The page
// is scrolled until the list's end is above the player.
export function keepInPage() {
  const move = ({ target }) => {
    const list = target.matches?.(MENU) && target.querySelector(".rp-menu-list");
    if (!list) return;
    list.style.translate = "";
    const { left, right } = list.getBoundingClientRect();
    const outside = Math.min(right - document.documentElement.clientWidth + MARGIN, left - MARGIN);
    if (outside > 0) list.style.translate = `${-outside}px`;
    list.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("toggle", move, true);
}
