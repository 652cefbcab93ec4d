// Sounds kept in the browser, so that they play again without being fetched.

import { Samples } from "../sound/samples.js";
import { Peaks } from "../sound/peaks.js";

const CACHE_BYTES = 64 * 2 ** 20; // about 25 minutes at 22,050 Hz

export class Sound extends Samples {
  // expected: estimated number of samples of the complete sound.
  constructor(id, rate, { expected = 0 } = {}) {
    super(rate);
    Object.assign(this, { id, expected, complete: false, stalls: { times: 0, seconds: 0 }, status: "", wav: null, facts: null });
    this.ms = null; // from the click to the first sound; null if it was not spoken on this page
    this.peaks = new Peaks(rate, 32768);
  }

  static whole(id, { rate, samples }) {
    const sound = new Sound(id, rate);
    sound.write(0, samples);
    sound.complete = true;
    return sound;
  }

  write(start, samples) {
    if (start > this.length) this.peaks.add(this.length, new Int16Array(start - this.length));
    super.write(start, samples);
    this.peaks.add(start, samples);
  }

  get seconds() {
    return this.length / this.rate;
  }

  // Seconds that the full width of its waveform stands for.
  get span() {
    return Math.max(this.length, this.complete ? 0 : this.expected) / this.rate;
  }
}

// A least-recently-used cache. Incomplete sounds and the one used last are never evicted.
export class SoundCache {
  constructor(limit = CACHE_BYTES) {
    this.limit = limit;
    this.sounds = new Map(); // by id, the least recently used first
  }

  put(sound) {
    this.sounds.delete(sound.id);
    this.sounds.set(sound.id, sound);
    this.tidy();
    return sound;
  }

  get(id) {
    const sound = this.sounds.get(id);
    return sound && this.put(sound);
  }

  forget(id) {
    this.sounds.delete(id);
  }

  clear() {
    this.sounds.clear();
  }

  get bytes() {
    return [...this.sounds.values()].reduce((sum, sound) => sum + sound.samples.byteLength, 0);
  }

  tidy() {
    const old = [...this.sounds.values()].slice(0, -1).filter((sound) => sound.complete);
    while (this.bytes > this.limit && old.length) this.sounds.delete(old.shift().id);
  }
}
