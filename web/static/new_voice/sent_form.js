// The form while its voice is saved. Afterwards only what was sent is cleared: the user may have begun the next voice.

import { UNCHANGED } from "../connection/answers/latest_answers.js";

let sent = { paths: [], texts: [], changed: null }; // of the one voice that is being saved
let unended = false; // whether the event of the last Save is not over; its refusal may be shown already
let pressedAgain = false; // whether Save was pressed since then
const CONTROLS = "button, a, summary, label, input, textarea, select, [role=tab], [role=option]";
const used = new Set(); // components that the user has used since Save was pressed, by element id
let acts = 0; // of the user, since the page was opened

// Withholds presses from Gradio, also those of the keyboard: while a voice is saved, of Save and of the buttons that turn
// the form into another one. Gradio skips the event of a press while the last one is not over, so that press is made later.
export function saveOneAtATime() {
  const withhold = (event) => {
    const isSaving = event.target.closest?.("#rp-tab-new:has(.rp-busy) :is(#rp-save, #rp-changed-voice button)");
    const isEarly = unended && event.target.closest?.("#rp-save");
    if (isSaving || isEarly) event.stopPropagation();
    if (isEarly && !isSaving) pressedAgain = true;
    if (event.isTrusted && !isSaving && event.target.closest?.("#rp-save")) used.clear();
    else note(event);
  };
  document.addEventListener("click", withhold, { capture: true });
  document.addEventListener("input", note, { capture: true });
  document.addEventListener("reprise:tab", ({ detail }) => noteOn(detail));
}

function note({ target, isTrusted }) {
  if (!isTrusted || target.closest?.("#rp-save") || !target.closest?.(CONTROLS)) return;
  noteOn(target.closest('[id^="rp-"]')?.id);
}

function noteOn(id) {
  used.add(id);
  acts += 1;
}

export const countActs = () => acts;

// Whether the user has done something else since Save was pressed.
export const hasActed = () => used.size > 0;

// Whether the server may still need the clip at this path for the voice that is being saved.
export const isBeingSaved = (path) => unended && sent.paths.includes(path);

// Called with the inputs of the event that saves. Resolves to them, with the clips as the server has them.
export async function sendForm(_clips, ...form) {
  const [name, speaker, _agreed, description, _language, changed] = form;
  const clips = await window.repriseRecorder.ready();
  unended = true;
  sent = { paths: (clips?.clips ?? []).map(({ path }) => path), texts: [name, speaker, description], changed: changed?.id };
  return [clips, ...form];
}

// Called when the event has succeeded. notice: the form's, "" if the voice is saved. now: name, speaker and description. Returns
// updates of the consent checkbox and of these, and dispatches `reprise:saved` with the paths of the clips and the id of the
// voice that they were changed of.
export function clearSent(notice, ...now) {
  if (notice) return [UNCHANGED, ...now.map(() => UNCHANGED)];
  document.dispatchEvent(new CustomEvent("reprise:saved", { detail: { paths: sent.paths, changed: sent.changed } }));
  const agreed = used.has("rp-consent") ? UNCHANGED : false;
  return [agreed, ...now.map((text, i) => (text === sent.texts[i] ? "" : UNCHANGED))];
}

// Called when the event is over, in either way.
export function endSaving() {
  unended = false;
  if (pressedAgain) document.querySelector("#rp-save").click();
  pressedAgain = false;
}
