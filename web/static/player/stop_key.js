// Escape, on any tab, closes an open menu, or a question before a deletion, or else stops speech and playback.

import { isShown } from "../ui/elements.js";
import { composes } from "../ui/keyboard.js";
import { closeMenu, MENU } from "../ui/menus.js";

const PICKER = '[role="listbox"], dialog[open], [role="dialog"]'; // they close themselves
const KEEP = '.rp-sure button[id$="-keep"]'; // the safe answer of a question (web/tabs/history/layout.py)

const seen = (selector) => [...document.querySelectorAll(selector)].find(isShown);

export function stopOnEscape(player) {
  let picking = false; // whether a picker was open before it handled the key
  const escape = (event) => event.key === "Escape" && !composes(event) && !event.repeat;
  addEventListener("keydown", (event) => escape(event) && (picking = Boolean(seen(PICKER))), { capture: true });
  document.addEventListener("keydown", (event) => {
    if (!escape(event) || event.defaultPrevented || picking) return;
    const [menu, keep] = [seen(MENU), seen(KEEP)];
    if (menu) closeMenu(menu);
    else if (keep) keep.click();
    else if (player.active) player.stopAll();
  });
}
