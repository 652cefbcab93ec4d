// The clips of a new voice, and their value for the server.

import { Trim } from "./trim.js";

export const MAX_CLIPS = 6;
const SAME_SPEECH = 0.3; // seconds of speech: a smaller difference is less than a word

let count = 0; // of clips made on this page

export class Clip {
  // file: in the browser; path: on the server. seconds, peaks: null if unknown. words: its transcript. before: the clip
  // that this one was repaired from. wordsSpoken: seconds of speech that the transcript was written for. cutFrom: the
  // LongFile that it is a part of, or null; cutAt: the start of the part.
  constructor({ file, path, name, seconds, peaks, playable, words = "", recorded = false, before = null, wordsSpoken = null, cutFrom = null, cutAt = 0 }) {
    Object.assign(this, { file, path, name, seconds, peaks, playable, words, recorded, before, wordsSpoken, cutFrom, cutAt });
    this.id = ++count; // its path changes when it is uploaded again
    this.trim = seconds ? new Trim(seconds) : null;
    this.found = null; // the findings about the part: { part, … }, or { part, problem }
    this.best = null; // [start, end] of the best part of the file
    this.wordsRow = null; // the finding about the number of words
    this.asked = null; // the part that is being examined
    this.dictating = false; // the server is transcribing it
    this.undictated = ""; // why the user's request to transcribe it failed, until its transcript is written
    this.dictated = false; // the transcript is the server's, unedited
  }

  // Its value for the server.
  get value() {
    const { path, name, seconds, words, trim } = this;
    return { path, name, seconds, words, start: trim?.start ?? 0, end: trim?.end ?? null };
  }

  // Identifies the chosen part.
  get part() {
    return `${this.id} ${this.trim?.start} ${this.trim?.end}`;
  }

  // Seconds of the chosen part; 0 if unknown.
  get length() {
    return this.trim?.length ?? 0;
  }

  get speechSeconds() {
    return this.found?.part === this.part ? (this.found.speech_seconds ?? null) : null;
  }

  // Sets a transcript written by hand for the part that is chosen now.
  write(words) {
    this.words = words;
    this.undictated = "";
    this.wordsSpoken = words.trim() ? this.speechSeconds : null;
    this.dictated = false;
  }

  find(found) {
    this.found = found;
    if (this.words.trim()) this.wordsSpoken ??= this.speechSeconds;
  }

  // Whether the ends were moved across speech after the transcript was written.
  get moved() {
    const { speechSeconds, wordsSpoken } = this;
    return speechSeconds !== null && wordsSpoken !== null && Math.abs(speechSeconds - wordsSpoken) > SAME_SPEECH;
  }
}

export class Clips {
  // mostMerged: the maximum seconds that several clips may have in total.
  constructor(mostMerged = Infinity) {
    this.mostMerged = mostMerged;
    this.list = [];
    this.chosen = null;
    this.unsent = []; // recordings that the server has refused: { file, more }, as for ClipImporter
    this.recorded = 0;
  }

  get full() {
    return this.list.length >= MAX_CLIPS;
  }

  nextNumber() {
    this.recorded += 1;
    return this.recorded;
  }

  // Adds a clip in place of `instead` or at the end, and chooses it.
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

  // Clips beyond the limit `mostMerged`, by the rule of web/tabs/new_voice/clips.py: the first always fits.
  get leftOut() {
    let seconds = this.list[0]?.length ?? 0;
    return this.list.slice(1).filter((clip) => {
      if (seconds + clip.length > this.mostMerged) return true;
      seconds += clip.length;
      return false;
    });
  }

  // The clips, and those that they were repaired from.
  get all() {
    const all = [];
    for (let clip of this.list) for (; clip; clip = clip.before) all.push(clip);
    return all;
  }

  // Whether there are neither clips nor recordings that may become clips.
  get empty() {
    return !this.list.length && !this.unsent.length;
  }

  // Their files on the server.
  get paths() {
    return this.all.map(({ path }) => path);
  }

  // Uploads the files at these paths again. send(file): resolves to its path; rejects if it is refused. Returns the errors.
  async uploadAgain(paths, send) {
    const errors = [];
    for (const clip of this.all.filter(({ path }) => paths.includes(path))) {
      try {
        clip.path = await send(clip.file);
      } catch (error) {
        errors.push(error);
      }
    }
    return errors;
  }

  // { chosen: index, clips: [{ path, name, seconds, start, end, words }] }; null when there is none.
  value() {
    if (!this.list.length) return null;
    return { chosen: this.list.indexOf(this.chosen), clips: this.list.map((clip) => clip.value) };
  }

  // Applies the server's value, which may move ends, choose another clip, and remove clips. Returns the removed ones.
  accept(value) {
    const kept = new Map((value?.clips ?? []).map((clip) => [clip.path, clip]));
    const gone = this.list.filter((clip) => !kept.has(clip.path));
    this.list = this.list.filter((clip) => kept.has(clip.path));
    for (const clip of this.list) {
      const { start, end } = kept.get(clip.path);
      clip.trim?.set(start ?? 0, end ?? clip.seconds);
    }
    const wanted = value?.clips?.[value.chosen]?.path;
    this.chosen = this.list.find((clip) => clip.path === wanted) ?? this.list.at(-1) ?? null;
    return gone;
  }
}
