// The clips of a new voice, and what the server is told of them.

import { Trim } from "./trim.js";

export const MOST_CLIPS = 6;
const SAME_SPEECH = 0.3; // seconds of speech more or less that are no word

export class Clip {
  // file: as the browser has it; path: where the server has it. seconds, peaks: null where nobody knows. words: that are
  // spoken in it. before: the clip that this one was mended from. wordsSpoken: seconds of speech that the words were
  // written for.
  constructor({ file, path, name, seconds, peaks, playable, words = "", recorded = false, before = null, wordsSpoken = null }) {
    Object.assign(this, { file, path, name, seconds, peaks, playable, words, recorded, before, wordsSpoken });
    this.trim = seconds ? new Trim(seconds) : null;
    this.found = null; // what the doctor says of the part: { part, … }, or { part, problem }
    this.best = null; // [start, end] of the best part of the whole
    this.wordsRow = null; // what is said of the number of words
    this.asked = null; // the part that the doctor is looking at
    this.dictating = false; // the server writes its words down
    this.dictated = false; // and did so: nobody has changed them since
  }

  // What is meant of it: its value for the server.
  get value() {
    const { path, name, seconds, words, trim } = this;
    return { path, name, seconds, words, start: trim?.start ?? 0, end: trim?.end ?? null };
  }

  // Changes whenever another part is meant.
  get part() {
    return `${this.path} ${this.trim?.start} ${this.trim?.end}`;
  }

  // Seconds that are meant; 0 where nobody knows.
  get length() {
    return this.trim?.length ?? 0;
  }

  get spoken() {
    return this.found?.part === this.part ? (this.found.spoken ?? null) : null;
  }

  // The words are somebody's own from now on, for the part that is meant now.
  write(words) {
    this.words = words;
    this.wordsSpoken = words.trim() ? this.spoken : null;
    this.dictated = false;
  }

  find(found) {
    this.found = found;
    if (this.words.trim()) this.wordsSpoken ??= this.spoken;
  }

  // Whether the ends were moved over speech after the words were written.
  get moved() {
    const { spoken, wordsSpoken } = this;
    return spoken !== null && wordsSpoken !== null && Math.abs(spoken - wordsSpoken) > SAME_SPEECH;
  }
}

export class Clips {
  // together: seconds that several clips may have.
  constructor(together = Infinity) {
    this.together = together;
    this.list = [];
    this.chosen = null;
    this.recorded = 0;
  }

  get full() {
    return this.list.length >= MOST_CLIPS;
  }

  nextNumber() {
    this.recorded += 1;
    return this.recorded;
  }

  // Puts a clip in, where `instead` was or at the end, and chooses it.
  add(clip, instead = null) {
    const at = this.list.indexOf(instead);
    if (at < 0) this.list.push(clip);
    else this.list[at] = clip;
    this.chosen = clip;
  }

  remove(clip) {
    const at = this.list.indexOf(clip);
    this.list = this.list.filter((other) => other !== clip);
    if (this.chosen === clip) this.chosen = this.list[Math.min(at, this.list.length - 1)] ?? null;
  }

  get length() {
    return this.list.reduce((sum, clip) => sum + clip.length, 0);
  }

  // Those that do not fit with the others, as web/tabs/new_voice/clips.py has it: the first always fits.
  get leftOut() {
    let seconds = this.list[0]?.length ?? 0;
    return this.list.slice(1).filter((clip) => {
      if (seconds + clip.length > this.together) return true;
      seconds += clip.length;
      return false;
    });
  }

  // { chosen: index, clips: [{ path, name, seconds, start, end, words }] }; null when there is none.
  value() {
    if (!this.list.length) return null;
    return { chosen: this.list.indexOf(this.chosen), clips: this.list.map((clip) => clip.value) };
  }

  // What the server made of it: it may move ends, choose, and take clips away. Gives those that are gone.
  accept(value) {
    const told = new Map((value?.clips ?? []).map((clip) => [clip.path, clip]));
    const gone = this.list.filter((clip) => !told.has(clip.path));
    this.list = this.list.filter((clip) => told.has(clip.path));
    for (const clip of this.list) {
      const { start, end } = told.get(clip.path);
      clip.trim?.set(start ?? 0, end ?? clip.seconds);
    }
    const wanted = value?.clips?.[value.chosen]?.path;
    this.chosen = this.list.find((clip) => clip.path === wanted) ?? this.list.at(-1) ?? null;
    return gone;
  }
}
