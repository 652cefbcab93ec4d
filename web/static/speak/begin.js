// What Speak sends. It can be pressed before the page knows its voices: then it waits for the one that is picked.

import { opening } from "../draft/page_draft.js";

const LONGEST = 10_000; // ms: then the server says that no voice is picked

let picked = null;
document.addEventListener("reprise:picked", ({ detail }) => (picked = detail));

// values: the text, the voice, settings, the owner's key, and the player's. Returns them with the ticket of the take, which
// the player makes in the click itself, because browsers let sound start only then. Never returns, so that nothing is sent, if
// the take is stopped or another begins while it waits.
export async function beginSpeaking([text, voice, ...values]) {
  const settings = values.slice(0, -2);
  const [key] = values.slice(-2);
  const ticket = window.reprisePlayer.begin();
  if (voice) return [text, voice, ...settings, key, ticket];
  const found = await voicePicked();
  if (window.reprisePlayer.stats.ticket !== ticket) return new Promise(() => {});
  return [text, found, ...settings, key ?? opening()[0], ticket];
}

function voicePicked() {
  if (picked) return picked;
  return new Promise((resolve) => {
    document.addEventListener("reprise:picked", ({ detail }) => detail && resolve(detail));
    setTimeout(() => resolve(null), LONGEST);
  });
}
