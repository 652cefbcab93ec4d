// Selects a tab of the page. The tabs that do not fit into the row are in Gradio's menu, which has only their labels.

import { words } from "./words.js";

export function showTab(tab) {
  const inMenu = [...document.querySelectorAll("#rp-tabs .overflow-dropdown button")];
  const label = words(`tab.${tab}`);
  const button = document.getElementById(`rp-tab-${tab}-button`) ?? inMenu.find((each) => each.textContent.trim() === label);
  button?.click();
}
