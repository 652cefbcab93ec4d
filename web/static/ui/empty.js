// The empty state of a tab: an icon, a message, and a button to the first step.

import { button, create } from "./elements.js";
import { drawing } from "./icons.js";

// tab: the tab that the button opens; "" for no button. label: the button's text.
export function emptyState(shape, text, tab = "", label = "") {
  const lead = tab && button({ class: "rp-quiet", text: label, onclick: () => showTab(tab) });
  return [drawing(shape), create("span", { text }), ...(lead ? [lead] : [])];
}

// Gradio keeps a hidden copy of the row of tabs, to measure it.
function showTab(tab) {
  const known = [...document.querySelectorAll(`#rp-tabs button[role="tab"][id="rp-tab-${tab}-button"]`)];
  (known.find((each) => each.checkVisibility?.({ visibilityProperty: true })) ?? known[0])?.click();
}
