// The voice that was just saved. Its value: { id, message, notice }; notice: HTML of the message that Speak shows. Its event `use`
// picks the voice and opens Speak. It comes at once if the user has done nothing else since Save was pressed, so that the
// answer takes nobody elsewhere; otherwise when the line below the tabs that tells of the voice is pressed.

import { hasActed } from "./sent_form.js";
import { draw } from "../ui/icons.js";

export function mount({ element, props, trigger, watch }) {
  const find = (selector) => element.querySelector(selector);
  const line = find(".rp-saved");

  function offer() {
    line.hidden = false;
    find("p").textContent = props.value.message;
  }

  function close() {
    line.hidden = true;
    find("p").textContent = "";
  }

  function use() {
    close();
    trigger("use", { id: props.value.id });
  }

  draw(element);
  find(".rp-saved-use").onclick = use;
  find(".rp-saved-close").onclick = close;
  document.addEventListener("reprise:picked", ({ detail }) => detail === props.value?.id && close());
  document.addEventListener("reprise:forgotten", close);
  watch("value", () => props.value && (hasActed() ? offer() : use()));
  window.repriseSaved = { offer };
}
