// Plays a script card by card, with each card's pause after it. Waits for cards that are still being spoken.

import { nextToHear } from "../cards.js";

export class ContinuousPlayback {
  // script(): the open ScriptCopy, or null. isDeleted(card): whether it is skipped. play(card): plays it. ready(card): fetches its
  // sound in advance, so that fetching does not lengthen the pause.
  constructor({ script, isDeleted, play, ready, later = (...what) => setTimeout(...what), forget = (timer) => clearTimeout(timer) }) {
    Object.assign(this, { script, isDeleted, play, ready, later, forget });
    Object.assign(this, { on: true, heard: null, awaited: null, timer: null, rests: 0 });
  }

  // Returns whether playback may begin when the server has answered: not if a card is heard, or if anything has ended it or
  // has been played meanwhile.
  plan() {
    const { rests } = this;
    return () => this.on && !this.heard && rests === this.rests;
  }

  // Plays from this card on, as soon as it is spoken.
  begin(id) {
    this.rest();
    this.awaited = id;
    this.look();
  }

  rest() {
    this.forget(this.timer);
    Object.assign(this, { heard: null, awaited: null, timer: null, rests: this.rests + 1 });
  }

  // Called when a card is played.
  playing(card) {
    this.rest();
    this.heard = { id: card.id, sound: card.sound };
  }

  // Called when any sound plays. The next card does not interrupt one of another part of the page.
  sounds(sound) {
    if (this.heard?.sound !== sound) this.rest();
  }

  // Plays the awaited card if it is there; called whenever something may have changed.
  look() {
    const script = this.script();
    if (!this.awaited || this.timer || !script?.head) return;
    const from = script.order.indexOf(this.awaited);
    const next = from < 0 ? null : nextToHear(script.list, from, script.head.running, this.isDeleted);
    if (!next) this.rest();
    else if (next.wait) this.awaited = next.wait.id;
    else this.sound(next.card);
  }

  sound(card) {
    this.playing(card);
    this.play(card);
  }

  // Called when a sound ended, was paused or was replaced.
  stopped(sound, reason) {
    if (!this.heard || this.heard.sound !== sound || reason === "paused") return; // it may resume
    const script = this.script();
    const at = script ? script.order.indexOf(this.heard.id) : -1;
    if (reason !== "ended" || !this.on || at < 0) return this.rest();
    const { pause } = script.list[at];
    this.rest();
    const next = nextToHear(script.list, at + 1, script.head.running, this.isDeleted);
    if (!next) return;
    this.awaited = (next.card ?? next.wait).id;
    if (next.card) this.ready(next.card);
    this.timer = this.later(() => {
      this.timer = null;
      this.look();
    }, pause * 1000);
  }
}
