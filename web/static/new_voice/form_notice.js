// Shows the answer to Save and keeps it in view: a verdict that arrives later makes the form above it longer.

import { mayFocus } from "../ui/keyboard.js";
import { words } from "../ui/words.js";

const OWN_WAY = ["wheel", "touchmove", "pointerdown", "keydown"]; // the user scrolls or types: stop keeping it in view
let watching = null;

// Focuses the field of the first error.
export function showNotice() {
  watching?.abort();
  requestAnimationFrame(() => {
    const notice = document.querySelector("#rp-form-notice .rp-notice");
    if (!notice) return;
    const { field } = notice.dataset;
    if (field && mayFocus()) document.querySelector(field)?.focus();
    keepInSight(notice);
  });
}

function keepInSight(notice) {
  watching = new AbortController();
  const { signal } = watching;
  const observer = new ResizeObserver(() => notice.scrollIntoView({ block: "nearest" }));
  observer.observe(notice.closest(".tabitem"));
  signal.addEventListener("abort", () => observer.disconnect());
  for (const event of OWN_WAY) addEventListener(event, () => watching.abort(), { signal, passive: true });
}

// HTML of the notice after Save if its answer is lost: the server may have saved the voice.
export const interrupted = () => `<p class="rp-notice rp-bad" role="alert">${words("connection.saved_unknown")}</p>`;
