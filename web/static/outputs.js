// The two ways to sound: the audio thread, and for plain http, where browsers have none, buffers scheduled ahead.
// Both take the same calls, `call(method, ...arguments)` of a Take, and say through `report` where playing stands.

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

class BufferOutput {
  constructor(context, destination, report) {
    this.kind = "buffers";
    Object.assign(this, { context, destination, report, take: null, pieces: [], until: 0, startedAt: null });
    setInterval(() => this.pump(), 100);
  }

  call(method, ...args) {
    if (method === "load") {
      this.recall();
      const [ticket, rate, hints] = args;
      this.ticket = ticket;
      this.take = new Take(rate, hints);
      this.startedAt = null;
    } else if (this.take) {
      if (method !== "write" || args[0] < this.take.length) this.recall();
      this.take[method](...args);
    }
    this.pump();
  }

  pump() {
    const { ticket, take, context, startedAt } = this;
    if (!take || context.state !== "running") return;
    take.settle();
    while (take.flowing && this.until < context.currentTime + AHEAD_SECONDS && this.next());
    const ahead = Math.max(0, this.until - context.currentTime) * take.rate;
    const { played, underruns, lost, wanted, waiting, pace, ended } = take;
    const position = Math.max(0, take.position - ahead);
    const heard = { ticket, position, ended: ended && !ahead, startedAt };
    this.report({ ...heard, played, underruns, lost, wanted, waiting, pace });
  }

  // Schedules one piece; false when there is nothing to schedule now.
  next() {
    const { take, context } = this;
    const ready = Math.floor(take.length - take.position);
    if (ready <= 0) {
      if (this.until <= context.currentTime) take.runDry();
      return false;
    }
    const out = new Float32Array(Math.min(ready, Math.ceil(PIECE_SECONDS * take.rate)));
    const from = take.position;
    take.read(out);
    const buffer = context.createBuffer(1, out.length, take.rate);
    buffer.copyToChannel(out, 0);
    const node = new AudioBufferSourceNode(context, { buffer });
    node.connect(this.destination);
    const at = Math.max(this.until, context.currentTime + 0.02);
    node.start(at);
    this.startedAt ??= at;
    this.until = at + buffer.duration;
    this.pieces = this.pieces.filter((piece) => piece.until > context.currentTime);
    this.pieces.push({ node, at, from, until: this.until });
    return true;
  }

  // Takes back what is scheduled but not yet heard.
  recall() {
    const now = this.context.currentTime;
    for (const piece of this.pieces) piece.node.stop();
    const current = this.pieces.find((piece) => piece.until > now);
    if (this.take && current) {
      const heard = current.from + Math.max(0, now - current.at) * this.take.rate;
      this.take.played -= this.take.position - heard;
      this.take.position = Math.floor(heard);
      Object.assign(this.take, { gain: 0, fading: 0 });
    }
    this.pieces = [];
    this.until = 0;
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
  const volume = new GainNode(context);
  volume.connect(context.destination);
  const output = context.audioWorklet
    ? await WorkletOutput.open(context, volume, report)
    : new BufferOutput(context, volume, report);
  return { context, volume, output };
}
