// The form while its voice is saved. Afterwards only what was sent is cleared: the user may have begun the next voice.

import { UNCHANGED } from "../connection/latest_answers.js";

let sent = { paths: [], texts: [], changed: null }; // of the one voice that is being saved
let unended = 0; // events of Save that are not over
let isSaved = false; // until the event is over
let answered = true; // whether the refusal of the last one is shown, or its voice saved: Gradio ends an event later

// Whether a voice is being saved with the clip at this path on the server.
export const isBeingSaved = (path) => unended > 0 && !answered && sent.paths.includes(path);

const isSaving = () => (unended > 0 && !answered) || document.querySelector("#rp-form-notice .rp-busy");

// Withholds presses of Save, and of the buttons that turn the form into another one, from Gradio while a voice is saved, also those of the keyboard.
export function saveOneAtATime() {
  const withhold = (event) => {
    if (event.target.closest?.("#rp-save, #rp-changed-voice button") && isSaving()) event.stopPropagation();
  };
  document.addEventListener("click", withhold, { capture: true });
}

// Called with the inputs of the event that saves. Resolves to them, with the clips as the server has them.
export async function sendForm(_clips, ...form) {
  unended += 1;
  answered = false;
  const [name, speaker, _agreed, description, _language, changed] = form;
  const clips = await window.repriseRecorder.ready();
  sent = { paths: (clips?.clips ?? []).map(({ path }) => path), texts: [name, speaker, description], changed: changed?.id };
  return [clips, ...form];
}

// Called when the voice is saved. now: name, speaker and description. Returns their updates, and dispatches `reprise:saved`
// with the paths of the clips and the id of the voice that they were changed of.
export function clearSent(...now) {
  answered = isSaved = true;
  document.dispatchEvent(new CustomEvent("reprise:saved", { detail: { paths: sent.paths, changed: sent.changed } }));
  return now.map((text, i) => (text === sent.texts[i] ? "" : UNCHANGED));
}

// Called with the form's notice when it changes.
export function noteAnswer(notice) {
  if (notice?.includes("rp-bad")) answered = true;
}

// Called when an event of Save is over. Focuses the text to speak if the voice is saved, since Speak is shown then.
export function endSaving() {
  unended -= 1;
  if (isSaved) document.querySelector("#rp-text textarea")?.focus();
  isSaved = false;
}
