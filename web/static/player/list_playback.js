// Playback of stored sounds, which are requested from lists. A sound that is not cached is fetched first; it is played unless
// another one was requested meanwhile.

import { Sound } from "./sound_cache.js";
import { fetchedWav } from "../sound/fetched_wav.js";
import { words } from "../ui/words.js";

const LATE = 300; // ms until the page says that a sound is being fetched

export class ListPlayback {
  // rate: Hz of samples that are given without one. tell(event, reason), about the latest request: "late", when its sound is
  // still being fetched; "failed" with the reason; or "done", when its sound is loaded, or there is none.
  constructor({ playback, cache, rate, tell }) {
    Object.assign(this, { playback, cache, rate, tell });
    this.requests = 0;
  }

  // Plays a sound, or resumes it where it was paused. source: Int16Array samples, { rate, samples }, a promise of one of
  // these, the URL of a 16-bit WAV, or a function that resolves to { wav, facts }, of which wav is one of these, to null if
  // the sound is gone, or to undefined if the page has told why it has none; not needed if the sound is cached. facts: those of
  // details.js and `status`, shown while the sound is loaded. Resolves to false if it cannot be loaded, or another one was
  // requested meanwhile.
  async play(id, source, facts = {}) {
    const [sound] = await this.find([id, source, facts]);
    if (!sound) return false;
    if (this.playback.sound !== sound) this.playback.load(sound);
    else if (!this.playback.wanted) this.playback.play();
    this.tell("done");
    return true;
  }

  // Plays a sound, or pauses it if it is playing.
  async toggle(id, source, facts) {
    if (this.playback.playing !== id) return this.play(id, source, facts);
    this.playback.pause();
    return true;
  }

  // Switches between two takes at the same share of their length; each is an id, or [id, source, facts]. Resolves to
  // the id of the one that plays now, null if one cannot be loaded.
  async compare(...pair) {
    const sounds = await this.find(...pair.map((take) => [take].flat()));
    if (!sounds.length) return null;
    const on = sounds.indexOf(this.playback.sound);
    this.playback.load(sounds[on === 0 ? 1 : 0], on < 0 || this.playback.at.ended ? 0 : this.playback.place);
    this.tell("done");
    return this.playback.sound.id;
  }

  // Plays a take from the position of another take of the same text, or pauses it if it plays. ids: of all these takes.
  async switchTo(take, ids) {
    if (this.playback.playing === take[0]) {
      this.playback.pause();
      return;
    }
    const [sound] = await this.find(take);
    if (!sound) return;
    const same = ids.includes(this.playback.sound?.id) && !this.playback.at.ended;
    if (sound === this.playback.sound && same) this.playback.play();
    else this.playback.load(sound, same ? this.playback.place : 0);
    this.tell("done");
  }

  // Sounds that are being fetched are not played.
  drop() {
    this.requests += 1;
  }

  // Called in the user gesture. takes: [id, source, facts]. Resolves to their sounds, to none if one cannot be loaded or is no
  // longer wanted.
  async find(...takes) {
    this.playback.wake(this.rate); // before anything is fetched
    const request = ++this.requests;
    const tell = (...event) => request === this.requests && this.tell(...event);
    const late = setTimeout(tell, LATE, "late");
    try {
      const sounds = await Promise.all(takes.map((take) => this.load(...take)));
      if (request !== this.requests) return [];
      if (sounds.every(Boolean)) return sounds;
      this.tell("done");
    } catch (error) {
      tell("failed", error.message);
    } finally {
      clearTimeout(late);
    }
    return [];
  }

  async load(id, source, given = {}) {
    const known = this.cache.get(id);
    const { status = "", ...facts } = given;
    if (known) return Object.assign(known, { facts: { ...known.facts, ...facts } });
    if (!source) throw new Error(words("player.gone"));
    if (typeof source === "function") {
      const answer = await source();
      if (answer === undefined) return null;
      return this.load(id, answer?.wav, { ...given, ...answer?.facts });
    }
    const found = await (typeof source === "string" ? fetchedWav(source) : source);
    const sound = Sound.whole(id, found instanceof Int16Array ? { rate: this.rate, samples: found } : found);
    const wav = facts.name ? { name: facts.name } : null;
    return this.cache.put(Object.assign(sound, { status, facts, wav }));
  }
}
