// Shows a notice while the server is gone, and requests the page's contents again when it is back (event `back`).

import { words } from "../ui/words.js";

const SAID_FOR = 5_000; // ms

export function mount({ element, trigger }) {
  const line = element.querySelector(".rp-notice");
  let timer = null;

  function say(key, kind) {
    clearTimeout(timer);
    line.hidden = !key;
    line.className = `rp-notice rp-${kind}`;
    line.textContent = key ? words(key) : "";
  }

  document.addEventListener("reprise:gone", () => say("connection.gone", "bad"));
  document.addEventListener("reprise:back", ({ detail }) => {
    if (detail.useless) return say("connection.reload", "bad");
    say("connection.back", "good");
    timer = setTimeout(() => say("", "good"), SAID_FOR);
    return trigger("back");
  });
}
