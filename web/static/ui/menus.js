// The page's menus: details.rp-menu with a .rp-menu-list. A click elsewhere closes them; so does Escape, by player/stop_key.js.

export const MENU = "details.rp-menu[open]";

export function closeFromOutside() {
  document.addEventListener("click", ({ target }) => {
    for (const menu of document.querySelectorAll(MENU)) if (!menu.contains(target)) menu.open = false;
  });
}
