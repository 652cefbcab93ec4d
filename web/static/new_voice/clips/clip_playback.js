// Plays a part of a sound file, and previews it after a codec round trip.

import { decoded } from "./sound_file.js";
import { sessionForPlayback } from "../../sound/audio_session.js";

const EDGE_SECONDS = 0.005; // fades, so that a cut does not click

// Plays parts of files, one at a time, each in an audio context of its own: in Safari one that was interrupted, as by a call, may stay
// silent for good.
export class ClipPlayer {
  constructor() {
    this.node = null;
    this.context = null;
    this.latest = {}; // { file, buffer }
  }

  get playing() {
    return this.node !== null;
  }

  // Call it in a user gesture: browsers start sound only then.
  wake() {
    sessionForPlayback();
    this.context ??= new AudioContext();
    this.context.resume();
  }

  // Calls done() when playback ends or is stopped. end: null for the end of the file.
  async play(file, start, end, done) {
    this.stop();
    this.wake();
    const wish = (this.wish = {});
    if (this.latest.file !== file) this.latest = { file, buffer: await decoded(file) };
    if (wish !== this.wish) return done();
    const { context } = this;
    end ??= this.latest.buffer.duration;
    const gain = new GainNode(context, { gain: 0 });
    const node = new AudioBufferSourceNode(context, { buffer: this.latest.buffer });
    node.connect(gain).connect(context.destination);
    const now = context.currentTime;
    this.began = now - start;
    gain.gain.setTargetAtTime(1, now, EDGE_SECONDS / 3);
    gain.gain.setTargetAtTime(0, now + end - start - EDGE_SECONDS, EDGE_SECONDS / 3);
    node.onended = () => {
      if (this.node === node) this.node = this.context = this.wish = null;
      context.close();
      done();
    };
    node.start(now, start, end - start);
    Object.assign(this, { node, gain });
  }

  // The position in the file, in seconds.
  get time() {
    return this.node ? this.context.currentTime - this.began : null;
  }

  stop() {
    this.wish = null;
    if (!this.node) return;
    const now = this.context.currentTime;
    this.gain.gain.cancelScheduledValues(0);
    this.gain.gain.setTargetAtTime(0, now, EDGE_SECONDS / 3);
    this.node.stop(now + EDGE_SECONDS);
    this.node = this.context = null;
  }
}

// Plays a clip after a codec round trip: the server encodes and decodes its chosen part.
export class CodecPreview {
  // ask(clip): a promise of { wav } or { problem }. changed(): playback started or ended. say(sentence): shows an error.
  constructor(ask, changed, say) {
    Object.assign(this, { ask, changed, say, player: new ClipPlayer(), asked: null, kept: null });
  }

  get playing() {
    return this.player.playing;
  }

  // Whether the server is working on this clip's part.
  waitsFor(clip) {
    return this.asked !== null && this.asked === clip.part;
  }

  async toggle(clip) {
    if (this.playing) return this.stop();
    this.player.wake(); // in the user gesture
    const file = await this.fileOf(clip);
    if (!file) return;
    await this.player.play(file, 0, null, () => this.changed());
    this.changed();
  }

  async fileOf(clip) {
    const { part } = clip;
    if (this.kept?.part === part) return this.kept.file;
    this.asked = part;
    this.changed();
    const answer = await this.ask(clip);
    if (this.asked !== part) return null; // another part was asked for meanwhile
    this.asked = null;
    this.changed();
    if (answer.problem) this.say(answer.problem);
    if (answer.problem || clip.part !== part) return null;
    this.kept = { part, file: wavOf(answer.wav) };
    return this.kept.file;
  }

  stop() {
    this.asked = null;
    this.player.stop();
    this.changed();
  }
}

// base64 → Blob
export function wavOf(base64) {
  return new Blob([Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))], { type: "audio/wav" });
}
