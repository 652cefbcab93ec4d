// The page's player. The event that speaks sends messages through `props.value`: "start", "wait", "chunk"s of 16-bit
// samples, and "end" with a link to the finished WAV; see web/tabs/speak/handlers.py. Its event `renew_links` requests links
// to a sound's files, which arrive there, too. Lists play through `window.reprisePlayer`. The player dispatches on the
// document: `reprise:playing`, `reprise:stopped`, `reprise:spoken` (a take is stored), `reprise:broken` (a take will be
// stored, after the connection broke off), `reprise:begun`, `reprise:heard`, `reprise:stalled`, and `reprise:unspeakable`
// (why a text cannot be spoken), whose default is to show it here.

import { FileLinks } from "./file_links.js";
import { openOutput } from "./playout/outputs.js";
import { Playback } from "./playback.js";
import { MESSAGES, PlayerView } from "./player_view.js";
import { stopOnEscape } from "./stop_key.js";
import { SoundCache, Sound } from "./sound_cache.js";
import { SpeechEvent } from "./speech_event.js";
import { failure } from "../connection/server.js";
import { firstSound } from "../ui/format.js";
import { randomName } from "../connection/random.js";
import { fetchedWav } from "../sound/fetched_wav.js";
import { words } from "../ui/words.js";

const LATE = 300; // ms until the page says that a sound is being fetched

function decodePcm(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Int16Array(bytes.buffer);
}

class Player {
  // rate: Hz of the samples that the engine sends.
  constructor({ element, props, trigger, watch }) {
    Object.assign(this, { rate: props.rate, trigger });
    this.cache = new SoundCache();
    this.links = new FileLinks((id) => trigger("renew_links", { id }));
    this.playback = new Playback((...opened) => this.open(...opened), (...event) => this.onPlayback(...event));
    this.view = new PlayerView(element, this);
    this.event = new SpeechEvent();
    this.activities = new Map(); // stop functions of other activities, by name
    this.ended = null; // the ticket of the last take that was given up and then ended
    this.wishes = 0; // counts requests to play a take of the list
    this.before = null; // the sound loaded before the current take, until the take has sound: { sound, place, wanted }
    this.reset();
    document.addEventListener("reprise:recording", () => this.hush());
    document.addEventListener("reprise:forgotten", () => this.forgetAll());
    watch("value", () => this.receive(props.value));
  }

  async open(rate, report) {
    const graph = await openOutput(rate, report);
    graph.volume.gain.value = this.volume ?? 1;
    return graph;
  }

  // ---- the take that is being spoken

  reset(ticket = null) {
    this.ticket = ticket;
    this.live = null; // its Sound, once the engine has begun
    this.take = null; // the id under which it will be stored
    this.hushed = false; // it is loaded paused
    this.stopping = false; // the server has been asked to end it
    this.nextMessage = 0;
    this.status = "";
    this.state = "empty";
    this.stats = {
      ticket, received: 0, chunks: 0, played: 0, underruns: 0, starved: 0, lost: 0,
      finished: false, stopReason: null, refilled: false,
      clickedAt: performance.now(), firstChunkAt: null, firstSoundAt: null, output: null,
    };
  }

  // Called in the click on a button that speaks. Returns whether a take can begin. start(): repeats the click; it is called
  // later if the take has ended, or is about to, and only its event is not over yet.
  mayBegin(start) {
    if (this.busy && !this.stopping) return false;
    if (this.event.request(start)) return true;
    this.playback.wake(this.rate); // in the user gesture
    if (this.busy) this.showBusy();
    else this.say(words("player.waiting"), "requested");
    return false;
  }

  // Called in the click on Speak: browsers start sound only in a user gesture. Returns the ticket of the new take.
  begin() {
    const ticket = randomName();
    this.wishes += 1;
    if (this.live && !this.stats.finished) this.cache.forget(this.ticket);
    const { sound, place, wanted } = this.playback;
    this.before = sound?.complete ? { sound, place, wanted } : null;
    this.playback.clear();
    this.playback.wake(this.rate);
    this.reset(ticket);
    this.say(words("player.waiting"), "waiting");
    announce("begun", { ticket });
    return ticket;
  }

  // Called in the click on Stop. Pauses playback at once. The spoken part of a take is kept; a take that the server has
  // not begun yet is given up.
  stop() {
    this.playback.pause();
    this.stopping = this.busy && this.live !== null;
    this.dropRequest();
    if (this.stopping) {
      this.trigger("stop_speech", { ticket: this.ticket });
    } else if (this.busy) {
      this.giveUp(words("player.stopped"), "stopped");
    }
  }

  // Called when the microphone is opened. Pauses playback; what is still to arrive does not begin by itself.
  hush() {
    this.hushed = true;
    this.dropWishes();
    this.dropRequest();
    this.playback.pause();
  }

  // Registers an activity of another part of the page. stop(): ends it; null when it is over.
  activity(name, stop) {
    if (stop) this.activities.set(name, stop);
    else this.activities.delete(name);
    this.view.refresh();
  }

  // volume: 0 to 1.
  setVolume(volume) {
    this.volume = volume;
    this.playback.graph?.volume.gain.setTargetAtTime(volume, 0, 0.02); // without a click
  }

  get active() {
    return this.busy || this.event.requested || this.state === "fetching" || this.playback.wanted || this.activities.size > 0;
  }

  // Stops all speech and playback, on any tab.
  stopAll() {
    this.dropWishes();
    this.stop();
    for (const stop of [...this.activities.values()]) stop();
  }

  // A click that was kept starts no take.
  dropRequest() {
    this.event.dropRequest();
    this.showBusy();
    if (this.state === "requested") this.say(words("player.stopped"), "stopped");
  }

  // Sounds that are being fetched are not played.
  dropWishes() {
    this.wishes += 1;
    if (this.state === "fetching") this.clearMessage();
  }

  // Called when the event failed: the server refused it, or the connection broke off.
  refused() {
    this.event.over();
    if (!this.busy) return;
    if (this.stats.received) this.breakOff();
    else this.giveUp(words(failure()), "problem");
  }

  // Ends a take without sound.
  giveUp(status, state) {
    this.restorePrevious(); // before `reset`, which clears the live sound
    this.reset();
    this.say(status, state);
  }

  // Ends the take with the samples that have arrived.
  breakOff() {
    this.stats.finished = true;
    this.live.status = words("player.broken");
    this.live.facts = { ...this.live.facts, ending: "disconnected" };
    this.playback.finish(this.live);
    if (this.take) announce("broken", { id: this.take, ms: firstSound(this.stats), stalls: this.live.stalls });
    this.say(this.live.status, "problem");
  }

  // Shows why the page itself refused to send a text.
  refuse(reason) {
    if (!this.busy) this.say(reason, "problem");
  }

  // Called when a take has no sound: loads the former sound again, unless another one is loaded. resume: whether it plays on if
  // it was playing; else it is paused.
  restorePrevious(resume = false) {
    const { live, before } = this;
    Object.assign(this, { live: null, before: null });
    if (live) this.cache.forget(live.id);
    if (this.playback.sound && this.playback.sound !== live) return;
    this.playback.clear();
    if (before) this.playback.load(this.cache.put(before.sound), before.place, resume && before.wanted);
  }

  // Clears the message about a take that failed, waits or is fetched. Called when its text is edited or another sound is loaded.
  clearMessage() {
    if (this.busy || !MESSAGES.includes(this.state)) return;
    const { sound } = this.playback;
    this.say(sound ? sound.status : words("player.empty"), sound ? "finished" : "empty");
  }

  get busy() {
    return this.ticket !== null && !this.stats.finished;
  }

  receive(message) {
    if (message?.links) this.links.arrived(message);
    if (!message?.ticket) return;
    if (message.ticket !== this.ticket) {
      if (message.kind !== "end") this.end(message.ticket);
      return;
    }
    if (message.number < this.nextMessage) return; // Gradio sends the last one again when the event is done
    this.nextMessage = message.number + 1;
    this.status = message.status;
    if (message.kind === "start") this.start(message);
    else if (message.kind === "wait") this.say(this.status, "waiting");
    else if (message.kind === "chunk") this.addChunk(message);
    else this.finish(message);
  }

  // Asks the server once to end a take that was given up before the server knew it.
  end(ticket) {
    if (ticket !== this.ended) this.trigger("stop_speech", { ticket });
    this.ended = ticket;
  }

  start({ rate, expected, facts, take = null }) {
    this.take = take;
    this.live = this.cache.put(new Sound(this.ticket, rate, { expected: expected * rate }));
    this.live.facts = facts;
    this.playback.load(this.live);
    if (this.hushed) this.playback.pause();
    this.say(this.status, "waiting");
  }

  addChunk({ start, pcm, words: spokenWords = [] }) {
    const samples = decodePcm(pcm);
    if (spokenWords.length) this.live.facts = { ...this.live.facts, words: [...(this.live.facts.words ?? []), ...spokenWords] };
    if (!samples.length && start >= this.live.length) return; // only words; else, audio is taken back
    this.stats.firstChunkAt ??= performance.now();
    this.before = null;
    this.stats.chunks += 1;
    this.stats.received += samples.length;
    this.playback.feed(this.live, start, samples);
    this.say(this.status, "speaking");
  }

  finish({ wav, stop_reason: reason, total, problem, unspeakable = false, take, facts }) {
    Object.assign(this.stats, { finished: true, stopReason: reason });
    if (!total) {
      this.restorePrevious(unspeakable && !this.hushed && !this.stopping);
    } else if (this.live) {
      Object.assign(this.live, { wav: wav && { ...wav }, status: this.status });
      this.live.facts = { ...this.live.facts, ending: reason ?? "error", ...facts };
      this.playback.finish(this.live);
      if (take) this.rename(take);
      if (wav?.url && (this.live.length !== total || this.live.lost)) this.refill(wav.url);
      if (take) announce("spoken", { id: take, ms: firstSound(this.stats), stalls: this.live.stalls });
    }
    this.say(this.status, problem ? "problem" : total ? "finished" : "stopped");
    if (unspeakable && !announce("unspeakable", { ticket: this.ticket, reason: this.status })) this.clearMessage();
  }

  // The take list's id replaces the ticket.
  rename(id) {
    this.cache.forget(this.live.id);
    this.live.id = id;
    this.cache.put(this.live);
  }

  // Replaces the live sound by the WAV, which is complete even if a message was lost. Playback continues at its position.
  async refill(url) {
    const { live, playback } = this;
    this.stats.refilled = true;
    const wav = await fetchedWav(url).catch(() => null);
    if (!wav) {
      live.status = words("player.broken");
      if (this.live === live) this.say(live.status, "problem");
      return;
    }
    const sound = this.cache.put(Sound.whole(live.id, wav));
    Object.assign(sound, { wav: live.wav, status: live.status, facts: live.facts, ms: live.ms, stalls: live.stalls });
    if (this.live === live) this.live = sound;
    if (playback.sound === live) playback.load(sound, Math.min(1, playback.at.position / sound.length), playback.wanted);
  }

  // ---- the take list

  // Plays a take, or resumes it where it was paused. source: Int16Array samples, { rate, samples }, a promise of one of
  // these, the URL of a 16-bit WAV, or a function that resolves to { wav, facts }, of which wav is one of these, to null if
  // the take is gone, or to undefined if the page has told why it has none; not needed if the take is cached. facts: those of
  // details.js and `status`, shown while the take is loaded. Resolves to false if the take cannot be loaded, or another one was
  // requested meanwhile.
  async play(id, source, facts = {}) {
    this.playback.wake(this.rate); // in the user gesture, before anything is fetched
    const sound = await this.loadAll([[id, source, facts]]).then((sounds) => sounds?.[0]);
    if (!sound) return false;
    if (this.playback.sound !== sound) this.playback.load(sound);
    else if (!this.playback.wanted) this.playback.play();
    this.clearMessage();
    this.view.show();
    return true;
  }

  // Plays a take, or pauses it if it is playing.
  async toggle(id, source, facts) {
    if (this.playing !== id) return this.play(id, source, facts);
    this.playback.pause();
    return true;
  }

  // Switches between two takes at the same share of their length; each is an id, or [id, source, facts]. Resolves to
  // the id of the one that plays now, null if one cannot be loaded.
  async compare(...pair) {
    this.playback.wake(this.rate);
    const sounds = await this.loadAll(pair.map((take) => [take].flat()));
    if (!sounds) return null;
    const on = sounds.indexOf(this.playback.sound);
    this.playback.load(sounds[on === 0 ? 1 : 0], on < 0 || this.playback.at.ended ? 0 : this.playback.place);
    this.clearMessage();
    this.view.show();
    return this.playback.sound.id;
  }

  // Plays a take from the position of another take of the same text, or pauses it if it plays. ids: of all these takes.
  async switchTo(take, ids) {
    this.playback.wake(this.rate);
    if (this.playing === take[0]) return this.playback.pause();
    const sound = (await this.loadAll([take]))?.[0];
    if (!sound) return undefined;
    const same = ids.includes(this.playback.sound?.id) && !this.playback.at.ended;
    if (sound === this.playback.sound && same) this.playback.play();
    else this.playback.load(sound, same ? this.playback.place : 0);
    this.clearMessage();
    return this.view.show();
  }

  async loadAll(takes) {
    const wish = ++this.wishes;
    const tell = () => wish === this.wishes && !this.busy && this.say(words("player.fetching"), "fetching");
    const late = setTimeout(tell, LATE);
    try {
      const sounds = await Promise.all(takes.map((take) => this.load(...take)));
      if (wish !== this.wishes) return null;
      if (sounds.every(Boolean)) return sounds;
      this.clearMessage();
      return null;
    } catch (error) {
      if (wish === this.wishes) this.say(words("player.unplayable", { reason: error.message }), "problem");
      return null;
    } finally {
      clearTimeout(late);
    }
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

  // The id of the take that plays or is about to; null if none.
  get playing() {
    return this.playback.wanted ? this.playback.sound.id : null;
  }

  // Removes a deleted take.
  forget(id) {
    this.cache.forget(id);
    if (this.before?.sound.id === id) this.before = null;
    if (this.playback.sound?.id !== id) return;
    this.playback.clear();
    if (this.live?.id === id) this.live = null;
    if (!this.busy) this.say(words("player.empty"), "empty");
    this.view.show();
  }

  // Called when all of the owner's data was deleted. Also ends the take that is being spoken.
  forgetAll() {
    this.stop();
    this.wishes += 1;
    this.before = null;
    this.cache.clear();
    this.playback.clear();
    this.reset();
    this.say(words("player.empty"), "empty");
  }

  // ---- events of the playback

  onPlayback(event, id, reason) {
    if (event === "failed") {
      this.say(words("player.unplayable", { reason: words("player.no_output") }), "problem");
      return;
    }
    if (event === "silent") {
      this.view.show();
      return;
    }
    if (event !== "moved") announce(event, { id, reason });
    if (this.live && this.playback.sound === this.live) this.measure(this.playback.at);
    this.view.refresh();
  }

  measure({ played, underruns, starved, lost, startedAt }) {
    const { stats, playback } = this;
    if (underruns === undefined) return; // nothing was reported yet
    if (starved !== stats.starved) this.stalled();
    Object.assign(stats, { played, underruns, starved, lost, output: playback.graph.output.kind });
    if (typeof startedAt !== "number" || stats.firstSoundAt !== null) return;
    const since = (playback.graph.context.currentTime - startedAt) * 1000;
    stats.firstSoundAt = Math.max(stats.firstChunkAt, performance.now() - since); // the two clocks differ by a little
    this.live.ms = firstSound(stats);
    announce("heard", { id: this.live.id, ms: this.live.ms });
    this.view.show();
  }

  // Announces how often playback of the live take has run dry.
  stalled() {
    announce("stalled", { id: this.live.id, stalls: this.live.stalls });
    this.view.show();
  }

  say(status, state) {
    this.status = status;
    this.state = state;
    this.showBusy();
    this.view.show();
  }

  // Shows whether Speak can be pressed.
  showBusy() {
    document.documentElement.toggleAttribute("data-rp-busy", (this.busy && !this.stopping) || this.event.requested);
  }
}

// Returns false if a listener has prevented the default.
function announce(event, detail) {
  return document.dispatchEvent(new CustomEvent(`reprise:${event}`, { detail, cancelable: true }));
}

// Stylesheets need the height of what sticks to the window's bottom, so that nothing is covered.
function measureDock({ element }) {
  const dock = element.closest("#rp-dock"); // none on a page with the player alone
  const keep = () => document.documentElement.style.setProperty("--rp-dock", `${dock.offsetHeight}px`);
  if (dock) new ResizeObserver(keep).observe(dock);
}

export function mount(component) {
  const player = new Player(component);
  measureDock(component);
  stopOnEscape(player);
  window.reprisePlayer = {
    wake: () => player.playback.wake(player.rate), // in the user gesture, where playback starts later without one
    mayBegin: (start) => player.mayBegin(start),
    begin: () => player.begin(),
    sent: () => player.event.begun(),
    over: () => player.event.over(),
    stop: () => player.stop(),
    activity: (name, stop) => player.activity(name, stop),
    refused: () => player.refused(),
    refuse: (reason) => player.refuse(reason),
    clearMessage: () => player.clearMessage(),
    play: (...take) => player.play(...take),
    toggle: (...take) => player.toggle(...take),
    compare: (first, second) => player.compare(first, second),
    switchTo: (take, ids) => player.switchTo(take, ids),
    pause: () => player.playback.pause(),
    forget: (id) => player.forget(id),
    get playing() {
      return player.playing;
    },
    get stalls() {
      return player.playback.stalls;
    },
    get graph() {
      return player.playback.graph;
    },
    get stats() {
      const { stats, playback, status } = player;
      const { length = 0, id = null } = playback.sound ?? {};
      return { ...stats, length, on: id, position: playback.at.position, status };
    },
  };
}
