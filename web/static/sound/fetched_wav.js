// A sound of the server.

import { decodeWav } from "./wav.js";
import { words } from "../ui/words.js";

const SILENCE = 30_000; // ms without data, after which the connection counts as lost: it may have died without notice

// Resolves to { rate, samples }. Rejects with an Error whose message says why the sound cannot be played.
export async function fetchedWav(url) {
  const request = new AbortController();
  const answer = await inTime(request, fetch(url, { signal: request.signal })).catch(() => null);
  if (answer && !answer.ok) throw new Error(words("player.answered", { status: answer.status }));
  const data = answer && (await dataOf(answer, request).catch(() => null));
  if (!data) throw new Error(words("player.unreachable"));
  const sound = decodeWav(data);
  if (!sound) throw new Error(words("player.no_wav"));
  return sound;
}

async function dataOf({ body }, request) {
  const [reader, parts] = [body.getReader(), []];
  for (;;) {
    const { done, value } = await inTime(request, reader.read());
    if (done) return new Blob(parts).arrayBuffer();
    parts.push(value);
  }
}

// Awaits the next data of a request, which is aborted if it comes too late.
function inTime(request, data) {
  const timer = setTimeout(() => request.abort(), SILENCE);
  return data.finally(() => clearTimeout(timer));
}
