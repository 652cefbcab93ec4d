// The form while its voice is saved. Afterwards only what was sent is cleared: the user may have begun the next voice.

import { UNCHANGED } from "../connection/latest_answers.js";

let sent = { paths: [], texts: [], changed: null }; // of the one voice that is being saved

// Withholds presses of Save, and of the buttons that turn the form into another one, from Gradio while a voice is saved, also those of the keyboard.
export function saveOneAtATime() {
  const withhold = (event) => {
    if (event.target.closest?.("#rp-tab-new:has(.rp-busy) :is(#rp-save, #rp-changed-voice button)")) event.stopPropagation();
  };
  document.addEventListener("click", withhold, { capture: true });
}

// Called with the inputs of the event that saves. Resolves to them, with the clips as the server has them.
export async function sendForm(_clips, ...form) {
  const [name, speaker, _agreed, description, _language, changed] = form;
  const clips = await window.repriseRecorder.ready();
  sent = { paths: (clips?.clips ?? []).map(({ path }) => path), texts: [name, speaker, description], changed: changed?.id };
  return [clips, ...form];
}

// Called when the event is over. notice: the form's, "" if the voice is saved. now: name, speaker and description. Returns
// their updates, and dispatches `reprise:saved` with the paths of the clips and the id of the voice that they were changed of.
export function clearSent(notice, ...now) {
  if (notice) return now.map(() => UNCHANGED);
  document.dispatchEvent(new CustomEvent("reprise:saved", { detail: { paths: sent.paths, changed: sent.changed } }));
  return now.map((text, i) => (text === sent.texts[i] ? "" : UNCHANGED));
}
