// Reads sound files as far as the browser can, and cuts clips out of files that are longer than a clip may be.

import { Peaks } from "../../sound/peaks.js";
import { encodeWav, toInt16 } from "../../sound/wav.js";

// Of a file to cut, because it is decoded whole: ten minutes of stereo take 230 MB.
export const MOST_MINUTES = 10;
export const MOST_MEGABYTES = 500;
const DECODED_RATE = 48_000; // Hz
const LEEWAY_SECONDS = 0.2; // lossy encoders add up to this much
const PROBE_MS = 4_000;

// Length in seconds from the file's header; null if the header lacks it or the browser cannot read it in time.
export function secondsIn(file) {
  if (!file.size) return Promise.resolve(null); // browsers log an error for empty files
  const audio = new Audio();
  const address = URL.createObjectURL(file);
  return new Promise((resolve) => {
    const known = () => resolve(Number.isFinite(audio.duration) ? audio.duration : null);
    Object.assign(audio, { preload: "metadata", onloadedmetadata: known, onerror: () => resolve(null), src: address });
    setTimeout(() => resolve(null), PROBE_MS);
  }).finally(() => {
    audio.removeAttribute("src");
    URL.revokeObjectURL(address);
  });
}

// Resolves to an AudioBuffer. Rejects for formats that this browser does not know.
export async function decoded(file) {
  return new OfflineAudioContext(1, 1, DECODED_RATE).decodeAudioData(await file.arrayBuffer());
}

// The mean of an AudioBuffer's channels from `start` to `end`, in samples.
function monoOf(buffer, start = 0, end = buffer.length) {
  const channels = Array.from({ length: buffer.numberOfChannels }, (_, i) => buffer.getChannelData(i).subarray(start, end));
  const mean = (_, i) => channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length;
  return channels.length === 1 ? channels[0] : channels[0].map(mean);
}

function peaksOf(buffer) {
  const peaks = new Peaks(buffer.sampleRate);
  peaks.add(0, monoOf(buffer));
  return peaks.values;
}

// Resolves to { seconds, peaks, playable } of a file. length: as `secondsIn` found it. ask(): resolves to the server's
// { seconds, peaks }, or { problem }; called if the browser does not know the format or the length. Rejects with an Error
// whose message is shown.
export async function inspected(file, length, ask) {
  let answer = length === null ? await ask() : null;
  if (answer?.problem) throw new Error(answer.problem);
  if (answer?.seconds === null) return { ...answer, playable: false };
  try {
    const buffer = await decoded(file);
    return { seconds: buffer.duration, peaks: peaksOf(buffer), playable: true };
  } catch {
    answer ??= await ask();
    if (answer.problem) throw new Error(answer.problem);
    return { ...answer, playable: false };
  }
}

// The part of an AudioBuffer from `start` to `end`, in seconds, as a WAV file.
function wavOf(buffer, start, end, name) {
  const [from, to] = [start, end].map((time) => Math.round(time * buffer.sampleRate));
  return new File([encodeWav(toInt16(monoOf(buffer, from, to)), buffer.sampleRate)], name, { type: "audio/wav" });
}

// Resolves to the chosen part of a Clip as a WAV file: its own file if that is one and all of it is chosen.
export async function wavOfPart({ file, trim }) {
  if (trim.whole && file.type === "audio/wav") return file;
  return wavOf(await decoded(file), trim.start, trim.end, file.name);
}

// Resolves to a saved voice's clip as a file, or to null if it cannot be fetched whole.
export async function storedFile(url, name) {
  try {
    const answer = await fetch(url);
    return answer.ok ? new File([await answer.blob()], name, { type: "audio/wav" }) : null;
  } catch {
    return null;
  }
}

// A file that is longer than a clip may be. Clips are cut out of it, one `longest` seconds after the other.
export class LongFile {
  constructor(file, seconds, longest) {
    Object.assign(this, { file, seconds, longest });
    this.transcripts = new Map(); // what was written for each part, by its start
  }

  // Whether a file of this length is one.
  static is(seconds, longest) {
    return seconds > longest + LEEWAY_SECONDS;
  }

  get tooLong() {
    return this.seconds > 60 * MOST_MINUTES;
  }

  // Starts of the parts before and after the one at `start`; null if there is none. The last part ends with the file.
  earlier(start) {
    return start > 0 ? (Math.ceil(start / this.longest) - 1) * this.longest : null;
  }

  later(start) {
    return start + this.longest + LEEWAY_SECONDS < this.seconds ? Math.min(start + this.longest, this.seconds - this.longest) : null;
  }

  // Resolves to the part at `start` as a WAV file. Rejects for formats that this browser does not know.
  async cut(start) {
    const buffer = await decoded(this.file);
    this.seconds = buffer.duration; // headers can be wrong
    return wavOf(buffer, start, start + this.longest, `${this.file.name}.wav`);
  }
}
