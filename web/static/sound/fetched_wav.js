// A sound of the server.

import { decodeWav } from "./wav.js";
import { words } from "../ui/words.js";

// Resolves to { rate, samples }. Rejects with an Error whose message says why the sound cannot be played.
export async function fetchedWav(url) {
  const answer = await fetch(url).catch(() => null);
  if (!answer) throw new Error(words("player.unreachable"));
  if (!answer.ok) throw new Error(words("player.answered", { status: answer.status }));
  const sound = decodeWav(await answer.arrayBuffer());
  if (!sound) throw new Error(words("player.no_wav"));
  return sound;
}
