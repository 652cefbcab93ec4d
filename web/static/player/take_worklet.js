// Plays a Take on the audio thread. Messages in: [method, ...arguments]; messages out: where playing stands.

const REPORT_EVERY = 2048; // frames

class TakeProcessor extends AudioWorkletProcessor {
  constructor() {
    super();
    this.take = null;
    this.received = 0; // calls
    this.startedAt = null; // context time of the first sample heard
    this.unreported = 0;
    this.port.onmessage = ({ data: [method, ...args] }) => this.receive(method, args);
  }

  receive(method, args) {
    this.received += 1;
    if (method === "load") this.load(...args);
    else if (this.take) this.take[method](...args);
  }

  load(rate, hints) {
    const before = this.take;
    this.take = new Take(rate, hints);
    if (before) this.take.follow(before);
    this.startedAt = null;
  }

  process(_inputs, [[out]]) {
    const take = this.take;
    if (!take) return true;
    const was = take.flowing;
    take.read(out, take.rate / sampleRate);
    if (this.startedAt === null && take.played > 0) this.startedAt = currentTime;
    this.unreported += out.length;
    if (was !== take.flowing || this.unreported >= REPORT_EVERY) this.report();
    return true;
  }

  report() {
    const { position, played, underruns, lost, wanted, waiting, ended, pace } = this.take;
    const { received, startedAt } = this;
    this.unreported = 0;
    this.port.postMessage({ received, position, played, underruns, lost, wanted, waiting, ended, pace, startedAt });
  }
}

registerProcessor("take", TakeProcessor);
