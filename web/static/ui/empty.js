// What a tab shows while it has nothing: a drawing, what is missing, and what to do first.

import { button, create } from "./elements.js";
import { drawing } from "./icons.js";

// tab: id of the tab where it begins, with the words on the button that leads there.
export function emptyState(shape, text, tab = "", label = "") {
  const lead = tab && button({ class: "rp-quiet", text: label, onclick: () => showTab(tab) });
  return [drawing(shape), create("span", { text }), ...(lead ? [lead] : [])];
}

// Gradio keeps a hidden copy of the row of tabs, to measure it.
function showTab(tab) {
  const known = [...document.querySelectorAll(`#rp-tabs button[role="tab"][id="rp-tab-${tab}-button"]`)];
  (known.find((each) => each.checkVisibility?.({ visibilityProperty: true })) ?? known[0])?.click();
}
