// The two ways to sound: the audio thread, and for plain http, where browsers have none, buffers scheduled ahead.
// Both take the same calls, `call(method, ...arguments)` of a Take, and say through `report` where playing stands.
// Needs take.js; WORKLET_SOURCE is the audio thread's program.

class WorkletOutput {
  static async open(context, destination, report) {
    const source = URL.createObjectURL(new Blob([WORKLET_SOURCE], { type: "text/javascript" }));
    await context.audioWorklet.addModule(source).finally(() => URL.revokeObjectURL(source));
    return new WorkletOutput(context, destination, report);
  }

  constructor(context, destination, report) {
    this.kind = "worklet";
    this.node = new AudioWorkletNode(context, "take", { numberOfInputs: 0, outputChannelCount: [1] });
    this.node.port.onmessage = ({ data }) => report(data);
    this.node.connect(destination);
  }

  call(...message) {
    this.node.port.postMessage(message);
  }
}

const AHEAD_SECONDS = 1.2; // background tabs run timers once a second
const PIECE_SECONDS = 0.25;
const SOON_SECONDS = 0.02; // what is scheduled sooner may be late

class BufferOutput {
  constructor(context, destination, report) {
    this.kind = "buffers";
    Object.assign(this, { context, destination, report, take: null, startedAt: null, lane: null });
    Object.assign(this, { pieces: [], until: 0, faded: false }); // what is scheduled, and how long it lasts
    this.received = 0; // calls
    this.timer = setInterval(() => this.pump(), 100);
  }

  call(method, ...args) {
    this.received += 1;
    if (method === "load") this.load(...args);
    else if (method === "finish") this.finish();
    else if (this.take) this.change(method, args);
    this.pump();
  }

  load(rate, hints) {
    this.recall();
    this.take = new Take(rate, hints);
    this.startedAt = null;
  }

  change(method, args) {
    if (method !== "write" || args[0] < this.take.position) this.recall();
    this.take[method](...args);
    // Whatever sounded was faded where it is scheduled: the samples to come begin in silence.
    if (!this.pieces.length) this.take.fading = 0;
  }

  finish() {
    this.take?.finish();
    if (this.pieces.length) this.fadeAtEnd();
  }

  get running() {
    return this.context.state === "running";
  }

  pump() {
    const { take, context } = this;
    if (!take || !this.running) return;
    take.settle();
    while (take.flowing && this.until < context.currentTime + AHEAD_SECONDS && this.next());
    const ahead = Math.max(0, this.until - context.currentTime) * take.rate;
    const { played, underruns, lost, wanted, waiting, pace, ended } = take;
    const position = Math.max(0, take.position - ahead);
    const heard = { received: this.received, position, ended: ended && !ahead, startedAt: this.startedAt };
    this.report({ ...heard, played, underruns, lost, wanted, waiting, pace });
  }

  // Schedules one piece; false when there is nothing to schedule now.
  next() {
    const { take, context } = this;
    const ready = Math.floor(take.length - take.position);
    const late = this.until < context.currentTime + SOON_SECONDS;
    if (late && (this.pieces.length || ready <= 0)) this.runDry();
    if (!take.flowing) return false;
    if (ready <= 0) return this.fadeOut();
    const out = new Float32Array(Math.min(ready, Math.ceil(PIECE_SECONDS * take.rate)));
    const from = take.position;
    take.read(out);
    this.schedule(out, from);
    return true;
  }

  // A take may end in the middle of a sound: what sounded last fades behind it.
  fadeOut() {
    const { take, faded } = this;
    if (!take.complete || faded || !this.pieces.length) return false;
    this.faded = true;
    const count = Math.ceil(FADE_SECONDS * take.rate);
    this.schedule(Float32Array.from({ length: count }, (_, i) => take.last * (1 - (i + 1) / count)), take.position);
    return false;
  }

  runDry() {
    this.take.runDry();
    this.take.fading = 0; // it has been silent for a while
    Object.assign(this, { pieces: [], faded: false });
  }

  schedule(samples, from) {
    const { take, context } = this;
    const buffer = context.createBuffer(1, samples.length, take.rate);
    buffer.copyToChannel(samples, 0);
    const node = new AudioBufferSourceNode(context, { buffer });
    const at = Math.max(this.until, context.currentTime + SOON_SECONDS);
    node.connect(this.openLane());
    node.start(at);
    this.startedAt ??= at;
    this.until = at + buffer.duration;
    this.fadeAtEnd();
    this.pieces = this.pieces.filter((piece) => piece.until > context.currentTime);
    this.pieces.push({ node, at, from, until: this.until });
  }

  // The way out of all pieces that follow on each other.
  openLane() {
    if (!this.lane) {
      this.lane = new GainNode(this.context);
      this.lane.connect(this.destination);
    }
    return this.lane;
  }

  // Nobody knows whether more will come before the last piece has sounded: it fades out unless there is.
  fadeAtEnd() {
    const { gain } = this.lane;
    gain.cancelScheduledValues(0);
    gain.setValueAtTime(1, this.context.currentTime);
    if (this.take.complete && this.take.position >= this.take.length) return; // its end is its own
    gain.setValueAtTime(1, Math.max(this.context.currentTime, this.until - FADE_SECONDS));
    gain.linearRampToValueAtTime(0, this.until);
  }

  // Takes back what is scheduled but not yet heard.
  recall() {
    const now = this.context.currentTime;
    this.closeLane(now);
    const current = this.pieces.find((piece) => piece.until > now);
    if (this.take && current) {
      const heard = Math.min(current.from + Math.max(0, now - current.at) * this.take.rate, this.take.position);
      this.take.played -= this.take.position - heard;
      this.take.position = Math.floor(heard);
      Object.assign(this.take, { gain: 0, fading: 0, last: 0 });
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

// An output at the engine's own rate where the browser allows it; elsewhere the Take resamples.
async function openOutput(rate, report) {
  let context;
  try {
    context = new AudioContext({ sampleRate: rate, latencyHint: "interactive" });
  } catch {
    context = new AudioContext();
  }
  const kind = context.audioWorklet ? WorkletOutput : { open: (...args) => new BufferOutput(...args) };
  const volume = new GainNode(context); // where tests listen in
  volume.connect(context.destination);
  return { context, volume, output: await kind.open(context, volume, report) };
}
