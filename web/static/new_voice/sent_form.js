// The form while its voice is saved. Afterwards only what was sent is cleared: the user may have begun the next voice.

import { UNCHANGED } from "../connection/latest_answers.js";

let sent = { paths: [], texts: [] }; // of the one voice that is being saved

// Withholds presses of Save from Gradio while a voice is saved, also those of the keyboard.
export function saveOneAtATime() {
  const withhold = (event) => {
    if (event.target.closest?.("#rp-tab-new:has(.rp-busy) #rp-save")) event.stopPropagation();
  };
  document.addEventListener("click", withhold, { capture: true });
}

// Called with the inputs of the event that saves. Resolves to them, with the clips as the server has them.
export async function sendForm(_clips, ...form) {
  const [name, speaker, _agreed, description] = form;
  const clips = await window.repriseRecorder.ready();
  sent = { paths: (clips?.clips ?? []).map(({ path }) => path), texts: [name, speaker, description] };
  return [clips, ...form];
}

// Called when the event is over. notice: the form's, "" if the voice is saved. now: name, speaker and description. Returns
// their updates, and dispatches `reprise:saved` with the paths of the clips.
export function clearSent(notice, ...now) {
  if (notice) return now.map(() => UNCHANGED);
  document.dispatchEvent(new CustomEvent("reprise:saved", { detail: { paths: sent.paths } }));
  return now.map((text, i) => (text === sent.texts[i] ? "" : UNCHANGED));
}
