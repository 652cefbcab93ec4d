// The take that is being spoken. Its event sends messages: "start", "wait", "chunk"s of 16-bit samples, and "end" with a
// link to the finished WAV; see web/tabs/speak/handlers.py. The samples make a sound of the cache, which plays as it arrives.

import { Sound } from "./sound_cache.js";
import { fetchedWav } from "../sound/fetched_wav.js";
import { firstSound } from "../ui/format.js";
import { words } from "../ui/words.js";

function decodePcm(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Int16Array(bytes.buffer);
}

export class LiveTake {
  // ticket: identifies its messages; null for no take. before: the sound loaded before it, { sound, place, wanted }, or null.
  // say(status, state): shows a sentence. tell(event, detail): an event of the player, "heard", "stalled", "spoken", "broken"
  // or "unspeakable".
  constructor({ playback, cache, say, tell }, ticket = null, before = null) {
    Object.assign(this, { playback, cache, say, tell, ticket });
    this.before = before; // until the take has sound
    this.sound = null; // its Sound, once the engine has begun
    this.id = null; // under which it will be stored
    this.hushed = false; // it is loaded paused
    this.stopping = false; // the server has been asked to end it
    this.nextMessage = 0;
    this.stats = {
      ticket, received: 0, chunks: 0, played: 0, underruns: 0, starved: 0, lost: 0,
      finished: false, stopReason: null, refilled: false,
      clickedAt: performance.now(), firstChunkAt: null, firstSoundAt: null, output: null,
    };
  }

  get busy() {
    return this.ticket !== null && !this.stats.finished;
  }

  // ---- messages of its event

  receive(message) {
    if (message.number < this.nextMessage) return; // Gradio sends the last one again when the event is done
    this.nextMessage = message.number + 1;
    if (message.kind === "start") this.start(message);
    else if (message.kind === "wait") this.say(message.status, "waiting");
    else if (message.kind === "chunk") this.addChunk(message);
    else this.finish(message);
  }

  start({ status, rate, expected, facts, take = null }) {
    this.id = take;
    this.sound = this.cache.put(new Sound(this.ticket, rate, { expected: expected * rate }));
    this.sound.facts = facts;
    this.playback.load(this.sound);
    if (this.hushed) this.playback.pause();
    this.say(status, "waiting");
  }

  addChunk({ status, start, pcm, words: spokenWords = [] }) {
    const { sound } = this;
    const samples = decodePcm(pcm);
    if (spokenWords.length) sound.facts = { ...sound.facts, words: [...(sound.facts.words ?? []), ...spokenWords] };
    if (!samples.length && start >= sound.length) return this.say(status); // only words; else, audio is taken back
    this.stats.firstChunkAt ??= performance.now();
    this.before = null;
    this.stats.chunks += 1;
    this.stats.received += samples.length;
    this.playback.feed(sound, start, samples);
    return this.say(status, "speaking");
  }

  finish(message) {
    const { status, stop_reason: stopReason, total, problem, unspeakable = false } = message;
    Object.assign(this.stats, { finished: true, stopReason });
    if (!total) this.restorePrevious(unspeakable && !this.hushed && !this.stopping);
    else if (this.sound) this.complete(message);
    this.say(status, problem ? "problem" : total ? "finished" : "stopped");
    if (unspeakable) this.tell("unspeakable", { ticket: this.ticket, reason: status });
  }

  complete({ status, stop_reason: reason, total, wav, take, facts }) {
    const { sound } = this;
    Object.assign(sound, { status, wav: wav && { ...wav }, facts: { ...sound.facts, ending: reason ?? "error", ...facts } });
    this.playback.finish(sound);
    if (take) this.rename(take);
    if (wav?.url && (sound.length !== total || sound.lost)) this.refill(wav.url);
    if (take) this.tell("spoken", { id: take, ms: firstSound(this.stats), stalls: sound.stalls });
  }

  // The id of the stored take replaces the ticket.
  rename(id) {
    this.cache.forget(this.sound.id);
    this.sound.id = id;
    this.cache.put(this.sound);
  }

  // Replaces its sound by the WAV, which is complete even if a message was lost. Playback continues at its position.
  async refill(url) {
    const { sound: live, playback } = this;
    this.stats.refilled = true;
    const wav = await fetchedWav(url).catch(() => null);
    if (!wav) {
      live.status = words("player.broken");
      if (this.sound === live) this.say(live.status, "problem");
      return;
    }
    const sound = this.cache.put(Sound.whole(live.id, wav));
    Object.assign(sound, { wav: live.wav, status: live.status, facts: live.facts, ms: live.ms, stalls: live.stalls });
    if (this.sound === live) this.sound = sound;
    if (playback.sound === live) playback.load(sound, Math.min(1, playback.at.position / sound.length), playback.wanted);
  }

  // ---- other ends

  // Called in the click on Stop. Returns whether the server has to end the take, whose spoken part is kept; it has not begun a
  // take without a sound.
  stop() {
    this.stopping = this.busy && this.sound !== null;
    return this.stopping;
  }

  // Ends the take with the samples that have arrived.
  breakOff() {
    const { sound } = this;
    this.stats.finished = true;
    Object.assign(sound, { status: words("player.broken"), facts: { ...sound.facts, ending: "disconnected" } });
    this.playback.finish(sound);
    if (this.id) this.tell("broken", { id: this.id, ms: firstSound(this.stats), stalls: sound.stalls });
    this.say(sound.status, "problem");
  }

  // Called when the take has no sound: loads the former sound again, unless another one is loaded. resume: whether it plays on
  // if it was playing; else it is paused.
  restorePrevious(resume = false) {
    const { sound, before, playback } = this;
    Object.assign(this, { sound: null, before: null });
    if (sound) this.cache.forget(sound.id);
    if (playback.sound && playback.sound !== sound) return;
    playback.clear();
    if (before) playback.load(this.cache.put(before.sound), before.place, resume && before.wanted);
  }

  // Called when another take replaces this one, which says nothing more.
  abandon() {
    if (this.sound && this.busy) this.cache.forget(this.sound.id);
    this.sound = null;
  }

  // Called when a stored take is deleted.
  forget(id) {
    if (this.before?.sound.id === id) this.before = null;
    if (this.sound?.id === id) this.sound = null;
  }

  // ---- how it is heard

  // Called when the position of the playback has changed.
  measure() {
    const { sound, stats, playback } = this;
    if (!sound || playback.sound !== sound) return;
    const { played, underruns, starved, lost, startedAt } = playback.at;
    if (underruns === undefined) return; // nothing was reported yet
    if (starved !== stats.starved) this.tell("stalled", { id: sound.id, stalls: sound.stalls });
    Object.assign(stats, { played, underruns, starved, lost, output: playback.graph.output.kind });
    if (typeof startedAt !== "number" || stats.firstSoundAt !== null) return;
    const since = (playback.graph.context.currentTime - startedAt) * 1000;
    stats.firstSoundAt = Math.max(stats.firstChunkAt, performance.now() - since); // the two clocks differ by a little
    sound.ms = firstSound(stats);
    this.tell("heard", { id: sound.id, ms: sound.ms });
  }
}
