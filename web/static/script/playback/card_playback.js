// Plays the open script in the page's player: one card, a take of a card, or card by card.

import { ContinuousPlayback } from "./continuous_playback.js";
import { fetchedWav } from "../../sound/fetched_wav.js";
import { remember, remembered } from "../../ui/remember.js";

const ALONG_KEY = "reprise.along";

export class CardPlayback {
  // editor: the ScriptEditor of the script.
  constructor(editor) {
    this.editor = editor;
    this.ready = { of: null, sound: null }; // the sound that was fetched last
    this.listening = new ContinuousPlayback({
      script: () => editor.script,
      isDeleted: ({ id }) => editor.view.isDeleted(id),
      play: (card) => this.play(card),
      ready: (card) => this.fetched(card),
    });
    editor.view.along.checked = this.listening.on = remembered(ALONG_KEY) !== "no";
    document.addEventListener("reprise:recording", () => {
      this.listening.rest();
      editor.tell();
    });
    document.addEventListener("reprise:playing", ({ detail }) => {
      editor.view.sounds(detail.id);
      this.listening.sounds(detail.id);
      editor.tell();
    });
    document.addEventListener("reprise:stopped", ({ detail }) => {
      editor.view.sounds(null);
      this.listening.stopped(detail.id, detail.reason);
      editor.tell();
    });
  }

  // Whether cards are played card by card, as soon as they are spoken.
  goAlong(on) {
    this.editor.view.along.checked = this.listening.on = on;
    remember(ALONG_KEY, on ? "yes" : "no");
    if (!on) this.listening.rest();
  }

  toggle(card) {
    window.reprisePlayer.wake();
    if (window.reprisePlayer.playing === card.sound) return window.reprisePlayer.pause();
    this.listening.playing(card);
    return this.play(card);
  }

  toggleTake(card, take) {
    const source = async () => {
      const answer = await this.editor.ask("listen", { card: card.id, take: take.id }, { quiet: true });
      return answer ? { wav: answer.url, facts: answer.facts } : undefined; // `ask` has told why
    };
    window.reprisePlayer.toggle(take.sound, source);
  }

  // Plays all cards from the beginning.
  playAll() {
    window.reprisePlayer.wake();
    this.goAlong(true);
    this.listening.begin(this.editor.script.order[0]);
  }

  // Plays a card's sound, unless another one is wanted by then. The player says why a sound cannot be played.
  async play(card) {
    const { heard } = this.listening;
    const { wav, facts } = (await this.fetched(card)) ?? {};
    if (heard !== this.listening.heard) return;
    this.editor.view.bringUp(card.id);
    const played = wav && (await window.reprisePlayer.play(card.sound, wav, facts));
    if (!played && heard === this.listening.heard) this.listening.rest();
  }

  // The sound of a card. The last one is kept, since it is requested in advance and again when it plays.
  fetched(card) {
    if (this.ready.of !== card.sound) this.ready = { of: card.sound, sound: this.fetchedNow(card) };
    return this.ready.sound;
  }

  // Resolves to { wav: a promise, facts }, or to null if the server did not give its address.
  async fetchedNow({ id, take, sound }) {
    const forget = () => this.ready.of === sound && (this.ready = { of: null, sound: null });
    const answer = await this.editor.ask("listen", { card: id, take }, { quiet: true });
    const wav = answer && fetchedWav(answer.url);
    if (wav) wav.catch(forget);
    else forget();
    return wav && { wav, facts: answer.facts };
  }
}
