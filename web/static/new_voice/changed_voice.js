// The note on the voice whose clips the form changes. Its value: { id, name, seen }, null for a new voice. With the id alone
// it asks for the voice, by the event `open_clips`; the answer also has the `clips`, which go to the recorder. Its event
// `empty_form` empties the form.

import { focusWhenShown, mayFocus } from "../ui/keyboard.js";
import { showTab } from "../ui/tabs.js";
import { words } from "../ui/words.js";

export function mount({ element, props, trigger, watch }) {
  const find = (selector) => element.querySelector(selector);
  const line = find("p");
  let opened = null; // the id of the voice whose clips the recorder has
  let former; // what the recorder had when the clips were asked for; what the user has added since stays

  function show(voice) {
    opened = voice?.id ?? null;
    find(".rp-changed").hidden = !voice;
    line.textContent = voice ? words("clip.changed", { name: voice.name }) : "";
  }

  function change(voice) {
    show(voice);
    props.value = voice;
  }

  function accept() {
    const { clips, ...voice } = props.value ?? {};
    if (clips) {
      window.repriseRecorder.open(clips, former);
      change(voice);
      if (mayFocus()) line.focus();
    } else if (!voice.id) show(null);
    else if (!voice.seen || voice.id !== opened) ask(voice); // the latter after a reload
  }

  function ask({ id }) {
    former = window.repriseRecorder?.all();
    trigger("open_clips", { id });
  }

  find(".rp-as-new").onclick = () => {
    change(null);
    document.querySelector("#rp-name :is(input, textarea)").select(); // another name is needed
  };
  find(".rp-keep").onclick = () => {
    change(null);
    window.repriseRecorder.open([]);
    trigger("empty_form");
    showTab("library");
    focusWhenShown("rp-tab-library-button"); // the button is gone
  };
  document.addEventListener("reprise:saved", ({ detail }) => opened && detail.changed === opened && change(null));
  document.addEventListener("reprise:forgotten", () => change(null));
  watch("value", accept);
  accept();
}
