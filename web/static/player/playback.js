// Plays one sound of the cache at a time through an output.

const AT_REST = { position: 0, wanted: false, waiting: true, ended: false, played: 0 };
export const SUSPEND_AFTER = 5000; // ms at rest. Running audio hardware uses a tenth of a CPU core; starting it takes some ms
const SILENT_AFTER = 4000; // ms without a report from an output that has samples to play

export class Playback {
  // open(rate, report): a promise of { context, output }. tell(event, id, reason): "playing"; "stopped" with the reason
  // "ended", "paused", "replaced" or "failed"; "failed" when the output cannot be opened; "silent" when `silent` changed;
  // or "moved" when the position changed. after(ms, done): a timer.
  constructor(open, tell, after = (ms, done) => setTimeout(done, ms)) {
    Object.assign(this, { open, tell, after, sound: null, pace: Infinity, speed: 1, at: AT_REST, sounding: false });
    this.graph = null; // { context, output }, opened at the first gesture
    this.resting = null; // identifies the current rest, after which the context is suspended
    this.sent = 0; // calls to the output
    this.silent = false; // the output does not play, for example because the device has none
    this.interrupted = false; // the system has taken the output, for example for a call
    this.dead = false; // the output did not play, and has not since
    this.awaited = null; // identifies the wait for a report of the output
  }

  // Call it in a user gesture: browsers start sound only then. Resolves to null if the output cannot be opened.
  wake(rate) {
    this.opening ??= this.open(rate, (at) => this.report(at)).then(
      (graph) => this.opened(graph),
      () => this.failed(),
    );
    this.resting = null;
    this.opening.then((graph) => graph?.context.resume()).catch(() => {}); // refused during a call; no report arrives then
    return this.opening;
  }

  opened(graph) {
    graph.context.onstatechange = () => graph === this.graph && this.changed(graph.context.state); // not that of a closed one
    return (this.graph = graph);
  }

  // Called when the state of the context has changed. Playback counts as paused while the system has the output, and continues
  // when the system gives it back.
  changed(state) {
    if (state === "running") this.interrupted = false;
    else if (this.sounding) {
      this.interrupted = true;
      this.answered(true);
      this.rest("paused");
    }
    this.tell("moved");
  }

  // Unloads the sound, whose calls are lost. The next call opens the output again.
  failed() {
    const { sound } = this;
    Object.assign(this, { opening: null, sent: 0, sound: null, at: AT_REST });
    this.answered(true);
    if (sound) this.tell("stopped", sound.id, "failed");
    this.tell("failed", sound?.id);
    return null;
  }

  // Closes an output that does not play; the next call opens another one. Some contexts stay silent for good: in Chromium after
  // their device has failed, in Safari after a call.
  closeDead() {
    if (!this.dead || !this.graph) return;
    this.graph.context.close();
    Object.assign(this, { opening: null, graph: null, sent: 0, dead: false });
  }

  call(...message) {
    this.sent += 1;
    const opening = this.interrupted ? this.opening : this.wake(this.sound.rate);
    opening.then((graph) => graph?.output.call(...message));
    this.awaitReport();
  }

  awaitReport() {
    if (this.awaited || !this.wanted || !this.sound.length) return;
    const awaited = (this.awaited = {});
    this.after(SILENT_AFTER, () => this.awaited === awaited && this.missed());
  }

  // Called when no report has arrived in time.
  missed() {
    this.dead = this.wanted;
    this.answered(!this.wanted);
  }

  // Notes whether the output has sent a report, or need not.
  answered(yes) {
    this.awaited = null;
    if (this.silent !== yes) return;
    this.silent = !yes;
    this.tell("silent");
  }

  // Loads a sound at a share of its length, and plays it if wanted. The former sound continues to arrive.
  load(sound, place = 0, wanted = true) {
    this.rest("replaced");
    this.closeDead();
    const position = Math.floor(place * sound.length);
    Object.assign(this, { sound, stallsBefore: sound.stalls, at: { ...AT_REST, wanted, position }, interrupted: false });
    this.call("load", sound.rate, { expected: sound.expected / sound.rate, pace: this.pace, speed: this.speed });
    if (sound.length) this.refill(position);
    this.tell("moved");
  }

  // Sends all samples of the sound. The output is paused meanwhile, so that the sound's beginning is not heard.
  refill(position) {
    this.call("pause");
    this.call("write", 0, this.sound.all().slice(), seconds());
    if (this.sound.complete) this.call("finish");
    this.call("seek", position);
    if (this.at.wanted) this.call("play");
  }

  // Unloads the sound.
  clear() {
    if (this.sound) this.call("pause");
    this.answered(true);
    this.rest("replaced");
    this.closeDead();
    Object.assign(this, { sound: null, at: AT_REST });
  }

  // Adds samples to any sound of the cache, and plays them if it is the loaded one.
  feed(sound, start, samples) {
    sound.write(start, samples);
    if (sound === this.sound) this.call("write", start, samples, seconds());
  }

  finish(sound) {
    sound.complete = true;
    if (sound === this.sound) this.call("finish");
  }

  play() {
    if (!this.sound) return;
    const again = this.sound.complete && this.at.position >= this.sound.length;
    if (this.dead) return this.load(this.sound, again ? 0 : this.place);
    this.at = { ...this.at, wanted: true, ended: false, position: again ? 0 : this.at.position };
    this.interrupted = false;
    this.call("play");
  }

  pause() {
    if (!this.sound) return;
    this.at = { ...this.at, wanted: false };
    this.call("pause");
    this.answered(true);
    this.rest("paused");
  }

  toggle() {
    if (this.wanted) this.pause();
    else this.play();
  }

  // Seeks to a time in seconds, within the samples that have arrived.
  seek(time) {
    if (!this.sound?.length) return;
    const position = Math.max(0, Math.min(Math.floor(time * this.sound.rate), this.sound.length));
    this.at = { ...this.at, position, ended: false };
    this.call("seek", position);
    this.tell("moved");
  }

  // speed: 0.5 to 2; the pitch stays.
  setSpeed(speed) {
    this.speed = speed;
    if (this.sound) this.call("setSpeed", speed);
  }

  get wanted() {
    return Boolean(this.sound) && this.at.wanted && !this.at.ended && !this.interrupted;
  }

  // The id of the sound that plays or is about to; null if none.
  get playing() {
    return this.wanted ? this.sound.id : null;
  }

  get seconds() {
    return this.sound ? this.at.position / this.sound.rate : 0;
  }

  // The position as a share of the length.
  get place() {
    return this.sound?.length ? Math.min(1, this.at.position / this.sound.length) : 0;
  }

  // Whether it waits for more samples of a take that has begun to arrive, so that it will not break off.
  get buffering() {
    return this.wanted && Boolean(this.at.buffering);
  }

  // How often and for how long playback of the sound ran dry, over all the times that it was loaded.
  get stalls() {
    return this.sound?.stalls ?? { times: 0, seconds: 0 };
  }

  report(at) {
    this.answered(true);
    this.dead = false;
    if (at.received !== this.sent || !this.sound) return; // a report from before the latest call
    this.at = { ...at, now: seconds() };
    const { times, seconds: before } = this.stallsBefore;
    this.sound.stalls = { times: times + at.underruns, seconds: before + at.starved / this.sound.rate };
    if (at.pace > 0 && Number.isFinite(at.pace)) this.pace = at.pace;
    if (this.wanted && at.played > 0 && !this.sounding) {
      this.sounding = true;
      this.tell("playing", this.sound.id);
    } else if (at.ended || !at.wanted) {
      this.rest(at.ended ? "ended" : "paused");
      this.suspendLater();
    }
    this.tell("moved");
  }

  suspendLater() {
    if (this.resting) return;
    const resting = (this.resting = {});
    this.after(SUSPEND_AFTER, () => this.resting === resting && this.graph.context.suspend());
  }

  rest(reason) {
    if (!this.sounding) return;
    this.sounding = false;
    this.tell("stopped", this.sound.id, reason);
  }
}

export const seconds = () => performance.now() / 1000;
