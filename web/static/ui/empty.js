// The empty state of a tab: an icon, a message, and a button to the first step.

import { button, create } from "./elements.js";
import { drawing } from "./icons.js";
import { showTab } from "./tabs.js";

// tab: the tab that the button opens; "" for no button. label: the button's text.
export function emptyState(shape, text, tab = "", label = "") {
  const lead = tab && button({ class: "rp-quiet", text: label, onclick: () => showTab(tab) });
  return [drawing(shape), create("span", { text }), ...(lead ? [lead] : [])];
}
