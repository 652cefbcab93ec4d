// Shows a notice while the server is gone, and requests the page's contents again when it is back (event `back`). Shows
// others when the server has refused an action or its answer to one was lost, and when the page has to be reloaded.

import { words } from "../ui/words.js";

const SAID_FOR = 5_000; // ms

export function mount({ element, trigger }) {
  const line = element.querySelector(".rp-notice");
  let timer = null;
  let stays = false; // whether the notice is one that is not replaced by what is shown for a while

  // ms: how long it is shown.
  function say(key, kind, ms = Infinity) {
    clearTimeout(timer);
    stays = Boolean(key) && ms === Infinity;
    if (ms < Infinity) timer = setTimeout(() => say("", kind), ms);
    line.hidden = !key;
    line.className = `rp-notice rp-${kind}`;
    line.textContent = key ? words(key) : "";
  }

  // Hides Gradio's own messages about failed events, which are in English and name another reason.
  function hush(gone) {
    for (const close of document.querySelectorAll("[data-testid=toast-close]")) close.click();
    document.documentElement.toggleAttribute("data-rp-gone", gone);
  }

  document.addEventListener("reprise:gone", () => {
    hush(true);
    say("connection.gone", "bad");
  });
  const warn = (key) => stays || say(key, "bad", 2 * SAID_FOR);
  document.addEventListener("reprise:back", ({ detail }) => {
    hush(false);
    say("connection.back", "good", SAID_FOR);
    if (detail.missed) warn("connection.missed");
    trigger("back");
  });
  document.addEventListener("reprise:refused", () => warn("connection.refused"));
  document.addEventListener("reprise:missed", () => warn("connection.missed"));
  document.addEventListener("reprise:useless", () => {
    hush(false);
    say("connection.reload", "bad");
  });
}
