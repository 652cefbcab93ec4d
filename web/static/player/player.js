// The page's player. The event that speaks sends its messages through `props.value` (live_take.js). Its event `renew_links`
// requests links to a sound's files, which arrive there, too. Lists play through `window.reprisePlayer`. The player dispatches
// on the document: `reprise:playing`, `reprise:stopped`, `reprise:spoken` (a take is stored), `reprise:broken` (a take will be
// stored, after the connection broke off), `reprise:begun`, `reprise:heard`, `reprise:stalled`, and `reprise:unspeakable`
// (why a text cannot be spoken), whose default is to show it here.

import { FileLinks } from "./file_links.js";
import { ListPlayback } from "./list_playback.js";
import { LiveTake } from "./live_take.js";
import { openOutput } from "./playout/outputs.js";
import { Playback } from "./playback.js";
import { MESSAGES, PlayerView } from "./player_view.js";
import { stopOnEscape } from "./stop_key.js";
import { SoundCache } from "./sound_cache.js";
import { SpeechEvent } from "./speech_event.js";
import { failure } from "../connection/server.js";
import { randomName } from "../connection/random.js";
import { words } from "../ui/words.js";

class Player {
  // rate: Hz of the samples that the engine sends.
  constructor({ element, props, trigger, watch }) {
    Object.assign(this, { rate: props.rate, trigger, status: "", state: "empty" });
    this.cache = new SoundCache();
    this.links = new FileLinks((id) => trigger("renew_links", { id }));
    this.playback = new Playback((...opened) => this.open(...opened), (...event) => this.onPlayback(...event));
    const { playback, cache } = this;
    this.list = new ListPlayback({ playback, cache, rate: props.rate, tell: (...event) => this.onList(...event) });
    this.setTake();
    this.view = new PlayerView(element, this);
    this.event = new SpeechEvent();
    this.activities = new Map(); // stop functions of other activities, by name
    this.ended = null; // the ticket of the last take that was given up and then ended
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

  // ticket: null for no take. before: the sound to load again if the take has none.
  setTake(ticket = null, before = null) {
    this.take?.abandon();
    const { playback, cache } = this;
    const say = (...sentence) => this.say(...sentence);
    const tell = (...event) => this.onTake(...event);
    this.take = new LiveTake({ playback, cache, say, tell }, ticket, before);
  }

  // Called in the click on a button that speaks. Returns whether a take can begin. start(): repeats the click; it is called
  // later if the take has ended, or is about to, and only its event is not over yet.
  mayBegin(start) {
    const { busy, stopping } = this.take;
    if (busy && !stopping) return false;
    if (this.event.request(start)) return true;
    this.playback.wake(this.rate); // in the user gesture
    if (busy) this.showBusy();
    else this.say(words("player.waiting"), "requested");
    return false;
  }

  // Called in the click on Speak: browsers start sound only in a user gesture. Returns the ticket of the new take.
  begin() {
    const ticket = randomName();
    const { sound, place, wanted } = this.playback;
    this.list.drop();
    this.playback.clear();
    this.playback.wake(this.rate);
    this.setTake(ticket, sound?.complete ? { sound, place, wanted } : null);
    this.say(words("player.waiting"), "waiting");
    announce("begun", { ticket });
    return ticket;
  }

  // Ends the take that is being spoken. Pauses playback at once. The spoken part of a take is kept; a take that the server has
  // not begun yet is given up.
  stop() {
    this.playback.pause();
    const stopping = this.take.stop();
    this.dropRequest();
    if (stopping) this.trigger("stop_speech", { ticket: this.take.ticket });
    else if (this.take.busy) this.giveUp(words("player.stopped"), "stopped");
  }

  // Called when the microphone is opened. Pauses playback; what is still to arrive does not begin by itself.
  hush() {
    this.take.hushed = true;
    this.stopFetching();
    this.dropRequest();
    this.playback.pause();
  }

  // A click that was kept starts no take.
  dropRequest() {
    this.event.dropRequest();
    this.showBusy();
    if (this.state === "requested") this.say(words("player.stopped"), "stopped");
  }

  // Called when the event failed: the server refused it, or the connection broke off. The server may be speaking the take.
  refused() {
    this.event.over();
    const { busy, ticket, stats } = this.take;
    if (!busy) return;
    if (stats.received) return this.take.breakOff();
    this.giveUp(words(failure()), "problem");
    this.end(ticket);
  }

  // Ends a take without sound.
  giveUp(status, state) {
    this.take.restorePrevious();
    this.setTake();
    this.say(status, state);
  }

  receive(message) {
    if (message?.links) this.links.arrived(message);
    if (!message?.ticket) return;
    if (message.ticket === this.take.ticket) this.take.receive(message);
    else if (message.kind !== "end") this.end(message.ticket);
  }

  // Asks the server once to end a take that was given up, of which nothing was heard: it is not stored.
  end(ticket) {
    if (ticket !== this.ended) this.trigger("stop_speech", { ticket, unheard: true });
    this.ended = ticket;
  }

  onTake(event, detail) {
    if (!announce(event, detail)) this.clearMessage();
    this.view.show();
  }

  // ---- all sounds

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
    const { take, event, state, playback, activities } = this;
    return take.busy || event.requested || state === "fetching" || playback.wanted || activities.size > 0;
  }

  // Stops all speech and playback, on any tab.
  stopAll() {
    this.stopFetching();
    this.stop();
    for (const stop of [...this.activities.values()]) stop();
  }

  // Sounds that are being fetched are not played.
  stopFetching() {
    this.list.drop();
    if (this.state === "fetching") this.clearMessage();
  }

  onList(event, reason) {
    if (event === "failed") this.say(words("player.unplayable", { reason }), "problem");
    else if (event === "late" && !this.take.busy) this.say(words("player.fetching"), "fetching");
    else if (event === "done") {
      this.clearMessage();
      this.view.show();
    }
  }

  // Removes a deleted take.
  forget(id) {
    this.cache.forget(id);
    this.take.forget(id);
    if (this.playback.sound?.id !== id) return;
    this.playback.clear();
    if (!this.take.busy) this.say(words("player.empty"), "empty");
    this.view.show();
  }

  // Called when all of the owner's data was deleted. Also ends the take that is being spoken.
  forgetAll() {
    this.stop();
    this.list.drop();
    this.playback.clear();
    this.setTake();
    this.cache.clear();
    this.say(words("player.empty"), "empty");
  }

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
    this.take.measure();
    this.view.refresh();
  }

  // ---- the status

  // state: "empty", "waiting", "speaking", "finished", or one of MESSAGES; as before if it is not given.
  say(status, state = this.state) {
    Object.assign(this, { status, state });
    this.showBusy();
    this.view.show();
  }

  // Shows whether Speak can be pressed.
  showBusy() {
    const { busy, stopping } = this.take;
    document.documentElement.toggleAttribute("data-rp-busy", (busy && !stopping) || this.event.requested);
  }

  // Shows why the page itself refused to send a text.
  refuse(reason) {
    if (!this.take.busy) this.say(reason, "problem");
  }

  // Clears the message about a take that failed, waits or is fetched. Called when its text is edited or another sound is loaded.
  clearMessage() {
    if (this.take.busy || !MESSAGES.includes(this.state)) return;
    const { sound } = this.playback;
    this.say(sound ? sound.status : words("player.empty"), sound ? "finished" : "empty");
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
  const { playback, list } = player;
  measureDock(component);
  stopOnEscape(player);
  window.reprisePlayer = {
    wake: () => playback.wake(player.rate), // in the user gesture, where playback starts later without one
    mayBegin: (start) => player.mayBegin(start),
    begin: () => player.begin(),
    sent: () => player.event.begun(),
    over: () => player.event.over(),
    stopAll: () => player.stopAll(),
    activity: (name, stop) => player.activity(name, stop),
    refused: () => player.refused(),
    refuse: (reason) => player.refuse(reason),
    clearMessage: () => player.clearMessage(),
    play: (...sound) => list.play(...sound),
    toggle: (...sound) => list.toggle(...sound),
    compare: (first, second) => list.compare(first, second),
    switchTo: (take, ids) => list.switchTo(take, ids),
    pause: () => playback.pause(),
    forget: (id) => player.forget(id),
    get playing() {
      return playback.playing;
    },
    get stalls() {
      return playback.stalls;
    },
    get graph() {
      return playback.graph;
    },
    get stats() {
      const { length = 0, id = null } = playback.sound ?? {};
      return { ...player.take.stats, length, on: id, position: playback.at.position, status: player.status };
    },
  };
}
