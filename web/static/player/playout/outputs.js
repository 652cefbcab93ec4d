// The two audio outputs: a worklet on the audio thread, and buffers scheduled in advance for plain http, where browsers
// have no worklets. `call(method, ...arguments)` calls a PlayoutBuffer; `report` receives the state of playback.

import { sessionForPlayback } from "../../sound/audio_session.js";
import { FADE_SECONDS, PlayoutBuffer } from "./playout_buffer.js";

export class WorkletOutput {
  static async open(context, destination, report) {
    await context.audioWorklet.addModule(new URL("./playout_worklet.js", import.meta.url));
    return new WorkletOutput(context, destination, report);
  }

  constructor(context, destination, report) {
    this.kind = "worklet";
    this.node = new AudioWorkletNode(context, "playout", { numberOfInputs: 0, outputChannelCount: [1] });
    this.node.port.onmessage = ({ data }) => report(data);
    this.node.connect(destination);
  }

  call(...message) {
    this.node.port.postMessage(message);
  }
}

const AHEAD_SECONDS = 1.2; // background tabs run timers once a second
const PIECE_SECONDS = 0.25;
const SOON_SECONDS = 0.02; // pieces scheduled with less time left may be late

export class BufferOutput {
  constructor(context, destination, report) {
    this.kind = "buffers";
    Object.assign(this, { context, destination, report, buffer: null, startedAt: null, lane: null });
    Object.assign(this, { pieces: [], until: 0, faded: false }); // the scheduled pieces, and when the last one ends
    this.received = 0; // calls
    this.timer = setInterval(() => this.pump(), 100);
  }

  call(method, ...args) {
    this.received += 1;
    if (method === "load") this.load(...args);
    else if (method === "finish") this.finish();
    else if (this.buffer) this.change(method, args);
    this.pump();
  }

  load(rate, hints) {
    this.recall();
    this.buffer = new PlayoutBuffer(rate, hints);
    this.startedAt = null;
  }

  change(method, args) {
    if (method !== "write" || args[0] < this.buffer.position) this.recall();
    this.buffer[method](...args);
    // Recalled pieces fade out by themselves: the next samples begin in silence.
    if (!this.pieces.length) this.buffer.fading = 0;
  }

  finish() {
    this.buffer?.finish();
    if (this.pieces.length) this.fadeAtEnd();
  }

  get running() {
    return this.context.state === "running";
  }

  pump() {
    const { buffer, context } = this;
    if (context.state === "closed") clearInterval(this.timer);
    if (!buffer || !this.running) return;
    buffer.settle();
    while (buffer.flowing && this.until < context.currentTime + AHEAD_SECONDS && this.next());
    const ahead = Math.max(0, this.until - context.currentTime) * buffer.rate * buffer.speed;
    const { played, underruns, starved, lost, wanted, waiting, buffering, pace, ended } = buffer;
    const position = Math.max(0, buffer.position - ahead);
    const heard = { received: this.received, position, ended: ended && !ahead, startedAt: this.startedAt };
    this.report({ ...heard, played, underruns, starved, lost, wanted, waiting, buffering, pace });
  }

  // Schedules one piece. Returns false if there is nothing to schedule now.
  next() {
    const { buffer, context } = this;
    const left = (buffer.playable - buffer.position) / buffer.speed;
    const ready = buffer.complete ? Math.ceil(left) : Math.floor(left); // a sound may end within the last step
    const late = this.until < context.currentTime + SOON_SECONDS;
    if (late && (this.pieces.length || ready <= 0)) this.runDry();
    if (!buffer.flowing) return false;
    if (ready <= 0) return this.fadeOut();
    const out = new Float32Array(Math.min(ready, Math.ceil(PIECE_SECONDS * buffer.rate)));
    const from = buffer.position;
    buffer.read(out);
    this.schedule(out, from);
    return true;
  }

  // Fades out the last value after the end: a take may end at a loud sample.
  fadeOut() {
    const { buffer, faded } = this;
    if (!buffer.complete || faded || !this.pieces.length) return false;
    this.faded = true;
    const count = Math.ceil(FADE_SECONDS * buffer.rate);
    this.schedule(Float32Array.from({ length: count }, (_, i) => buffer.last * (1 - (i + 1) / count)), buffer.position);
    return false;
  }

  runDry() {
    this.buffer.runDry();
    this.buffer.fading = 0; // it has been silent for a while
    this.pieces = [];
  }

  schedule(samples, from) {
    const { buffer, context } = this;
    const audio = context.createBuffer(1, samples.length, buffer.rate);
    audio.copyToChannel(samples, 0);
    const node = new AudioBufferSourceNode(context, { buffer: audio });
    const at = Math.max(this.until, context.currentTime + SOON_SECONDS);
    if (this.until) buffer.starved += (at - this.until) * buffer.rate;
    node.connect(this.openLane());
    node.start(at);
    this.startedAt ??= at;
    this.until = at + audio.duration;
    this.fadeAtEnd();
    this.pieces = this.pieces.filter((piece) => piece.until > context.currentTime);
    this.pieces.push({ node, at, from, until: this.until });
  }

  // Returns the gain node of all pieces that follow each other without a gap.
  openLane() {
    if (!this.lane) {
      this.lane = new GainNode(this.context);
      this.lane.connect(this.destination);
    }
    return this.lane;
  }

  // Fades out the last piece, in case no more samples arrive before it ends.
  fadeAtEnd() {
    const { gain } = this.lane;
    gain.cancelScheduledValues(0);
    gain.setValueAtTime(1, this.context.currentTime);
    if (this.buffer.complete && this.buffer.position >= this.buffer.length) return; // fadeOut handles the end
    gain.setValueAtTime(1, Math.max(this.context.currentTime, this.until - FADE_SECONDS));
    gain.linearRampToValueAtTime(0, this.until);
  }

  // Cancels what is scheduled but not yet heard.
  recall() {
    const now = this.context.currentTime;
    this.closeLane(now);
    const current = this.pieces.find((piece) => piece.until > now);
    if (current) {
      const heard = Math.min(current.from + Math.max(0, now - current.at) * this.buffer.rate * this.buffer.speed, this.buffer.position);
      this.buffer.played -= (this.buffer.position - heard) / this.buffer.speed;
      this.buffer.position = Math.floor(heard);
      this.buffer.gain = 0;
    }
    Object.assign(this, { pieces: [], until: 0, faded: false });
  }

  closeLane(now) {
    if (!this.lane) return;
    const { gain } = this.lane;
    gain.cancelScheduledValues(0);
    gain.setValueAtTime(1, now);
    gain.linearRampToValueAtTime(0, now + FADE_SECONDS);
    for (const { node } of this.pieces) node.stop(now + FADE_SECONDS);
    this.lane = null;
  }
}

// Opens an output at the engine's own rate if the browser allows it. Otherwise the sound is resampled.
export async function openOutput(rate, report) {
  sessionForPlayback();
  let context;
  try {
    context = new AudioContext({ sampleRate: rate, latencyHint: "interactive" });
  } catch {
    context = new AudioContext();
  }
  const kind = context.audioWorklet ? WorkletOutput : { open: (...args) => new BufferOutput(...args) };
  const volume = new GainNode(context); // tests record here too
  volume.connect(context.destination);
  try {
    return { context, volume, output: await kind.open(context, volume, report) };
  } catch (error) {
    context.close();
    throw error;
  }
}
