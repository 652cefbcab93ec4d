// The voice that was just saved. Its value: { id, message, notice }; notice: HTML of the message that Speak shows. Its event `use`
// picks the voice; its answer opens Speak. It comes at once if the user has done nothing else since Save was pressed; otherwise
// when the line above the player that tells of the voice is pressed. The tab stays if the user has done something until the
// answer arrives.

import { UNCHANGED } from "../connection/answers/latest_answers.js";
import { countActs, hasActed } from "./sent_form.js";
import { draw } from "../ui/icons.js";

export function mount({ element, props, trigger, watch }) {
  const find = (selector) => element.querySelector(selector);
  const line = find(".rp-saved");
  let acts = 0; // of the user, when the voice was last asked for
  let listed = false; // whether the list of voices has had this one

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
    acts = countActs();
    trigger("use", { id: props.value.id });
  }

  // The tab to show when the answer has arrived.
  function tabToShow() {
    return countActs() === acts ? { __type__: "update", selected: "speak" } : UNCHANGED;
  }

  function follow(voices) {
    const known = voices.some(({ id }) => id === props.value?.id);
    if (listed && !known) close(); // the voice was deleted
    listed = known;
  }

  draw(element);
  find(".rp-saved-use").onclick = use;
  find(".rp-saved-close").onclick = close;
  document.addEventListener("reprise:picked", ({ detail }) => detail === props.value?.id && close());
  document.addEventListener("reprise:coloured", ({ detail }) => follow(detail));
  document.addEventListener("reprise:forgotten", close);
  watch("value", () => {
    listed = false;
    return props.value && (hasActed() ? offer() : use());
  });
  window.repriseSaved = { offer, tabToShow };
}
