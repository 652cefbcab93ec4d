// The first steps, shown to visitors who have made neither a voice nor a take, until they are closed. They are shown before
// the server answers, because the page below them would move; so the browser stores for whom they are not.
// Value: { made: whether the visitor has made a voice or a take }.

import { remember, remembered } from "../ui/remember.js";

const WELCOMED = "reprise.welcomed";
const [CLOSED, MADE] = ["yes", "made"]; // closed in this browser for good; `made`, when the server answered last

export function mount({ element, props, watch }) {
  let state = remembered(WELCOMED);

  function keep(changed) {
    if (state === CLOSED) return;
    state = changed;
    remember(WELCOMED, state);
  }

  const show = () => document.documentElement.toggleAttribute("data-rp-welcomed", state !== null);

  element.querySelector(".rp-welcome-skip").onclick = () => {
    keep(CLOSED);
    show();
    window.reprise.beginWriting();
  };
  document.addEventListener("reprise:spoken", () => keep(MADE)); // the page does not move until it is opened again
  document.addEventListener("reprise:saved", () => {
    keep(MADE);
    show(); // before Speak is opened, which would move
  });
  watch("value", () => {
    keep(props.value.made ? MADE : null);
    show();
  });
  show();
}
