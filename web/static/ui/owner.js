// Keeps the key that this browser is known by, and sends it with every event as this component's value. A Space shows
// the page in a frame, where cookies are restricted; this storage is not, or only kept apart from other sites.

import { remember, remembered } from "./remember.js";
import { words } from "./words.js";

export const KEY = "reprise.owner";

export function mount({ element, props, watch }) {
  let known = remembered(KEY); // what the page told the server when it opened; null where it lives as long as the page
  if (known) props.value = known;

  function keep(token) {
    if (remember(KEY, token)) return;
    const notice = element.querySelector(".rp-notice");
    notice.textContent = words("owner.forgotten");
    notice.hidden = false;
  }

  watch("value", () => {
    const token = props.value;
    if (!token || token === known) return;
    const kept = remembered(KEY);
    if (kept && kept !== known) props.value = kept; // another page of this browser was given one at the same time
    else keep(token);
    known = props.value;
  });

  // Another page of this browser was given a new key: it is this page's as well.
  addEventListener("storage", ({ key, newValue }) => {
    if (key === KEY && newValue) props.value = known = newValue;
  });
}
