// Inputs of the Speak event. If Speak is pressed before the page knows its voices, it waits until a voice is picked.

import { opening } from "../draft/page_draft.js";

const LONGEST = 10_000; // ms; after that, the server answers that no voice is picked

let picked = null;
document.addEventListener("reprise:picked", ({ detail }) => (picked = detail));

let latest = null; // the ticket of the latest take of the text box

// Whether a take is the latest one of the text box, and not one that was repeated from the list.
export const isOfTextBox = (ticket) => ticket === latest;

// Inputs: the text, the voice, settings, the owner's key, and the player's value. Resolves to them with the ticket of the
// take in place of the last. The player creates the ticket within the click, because browsers start sound only then. Never
// resolves, so that nothing is sent, if the take is stopped or another one begins meanwhile.
export async function beginSpeaking([text, voice, ...values]) {
  const settings = values.slice(0, -2);
  const [key] = values.slice(-2);
  const ticket = (latest = window.reprisePlayer.begin());
  const found = voice || (await voicePicked());
  if (window.reprisePlayer.stats.ticket !== ticket) return new Promise(() => {});
  window.reprisePlayer.sent();
  return [text, found, ...settings, key ?? opening()[0], ticket];
}

// Resolves to the picked voice; null if none is picked in time.
export async function voicePicked() {
  if (picked) return picked;
  return new Promise((resolve) => {
    document.addEventListener("reprise:picked", ({ detail }) => detail && resolve(detail));
    setTimeout(() => resolve(null), LONGEST);
  });
}
