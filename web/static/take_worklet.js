// Plays a Take on the audio thread. Messages in: [method, ...arguments]; messages out: where playing stands.

const REPORT_EVERY = 2048; // frames

class TakeProcessor extends AudioWorkletProcessor {
  constructor() {
    super();
    this.take = null;
    this.startedAt = null; // context time of the first sample heard
    this.unreported = 0;
    this.port.onmessage = ({ data: [method, ...args] }) => this.receive(method, args);
  }

  receive(method, args) {
    if (method === "load") {
      const [ticket, rate, hints] = args;
      this.ticket = ticket;
      this.take = new Take(rate, hints);
      this.startedAt = null;
    } else if (this.take) {
      this.take[method](...args);
    }
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
    const { ticket, startedAt } = this;
    this.unreported = 0;
    this.port.postMessage({ ticket, position, played, underruns, lost, wanted, waiting, ended, pace, startedAt });
  }
}

registerProcessor("take", TakeProcessor);
