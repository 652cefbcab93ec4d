// Shows the state of the server, and polls it every few seconds while the tab is visible.

import { loadingOf, rowsOf } from "./facts.js";
import { create } from "../ui/elements.js";
import { pageLanguage } from "../ui/words.js";

const PERIOD = 2000; // ms

export function mount({ element, props, trigger, watch }) {
  const rows = element.querySelector(".rp-status-rows");
  const loading = element.querySelector(".rp-status-loading");
  const licence = element.querySelector(".rp-status-licence");
  let seen = false;
  let asked = 0; // time of the unanswered request; 0 for none

  function refresh() {
    const now = Date.now();
    if (!seen || document.hidden || now - asked < 5 * PERIOD) return; // a slow server gets one request at a time
    asked = now;
    trigger("refresh", {});
  }

  function show(state) {
    const pairs = rowsOf(state, pageLanguage());
    while (rows.children.length > pairs.length) rows.lastChild.remove();
    pairs.forEach(([name, value], place) => {
      const row = rows.children[place] ?? rows.appendChild(create("div", {}, create("dt"), create("dd")));
      write(row.children[0], name);
      write(row.children[1], value);
    });
    write(licence, state.notice);
    write(loading, state.loading ? loadingOf(state.loading) : "");
    loading.hidden = !state.loading;
  }

  function receive() {
    asked = 0;
    if (props.value) show(props.value);
  }

  watch("value", receive);
  receive(); // the value sent before this script ran
  new IntersectionObserver((entries) => {
    seen = entries.at(-1).isIntersecting;
    refresh();
  }).observe(element);
  document.addEventListener("visibilitychange", refresh);
  setInterval(refresh, PERIOD);
}

// Writes only what changed, so that screen readers are not interrupted.
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
