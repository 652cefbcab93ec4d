// Plays a PlayoutBuffer on the audio thread. Messages in: [method, ...arguments]. Messages out: the state of playback.

import { PlayoutBuffer } from "./playout_buffer.js";

const REPORT_EVERY = 2048; // frames

class PlayoutProcessor extends AudioWorkletProcessor {
  constructor() {
    super();
    this.buffer = null;
    this.received = 0; // calls
    this.startedAt = null; // context time of the first sample heard
    this.unreported = 0;
    this.port.onmessage = ({ data: [method, ...args] }) => this.receive(method, args);
  }

  receive(method, args) {
    this.received += 1;
    if (method === "load") this.load(...args);
    else if (this.buffer) this.buffer[method](...args);
  }

  load(rate, hints) {
    const before = this.buffer;
    this.buffer = new PlayoutBuffer(rate, hints);
    if (before) this.buffer.follow(before);
    this.startedAt = null;
  }

  process(_inputs, [[out]]) {
    const buffer = this.buffer;
    if (!buffer) return true;
    const was = buffer.flowing;
    buffer.read(out, buffer.rate / sampleRate);
    if (this.startedAt === null && buffer.played > 0) this.startedAt = currentTime;
    this.unreported += out.length;
    if (was !== buffer.flowing || this.unreported >= REPORT_EVERY) this.report();
    return true;
  }

  report() {
    const { position, played, underruns, starved, lost, wanted, waiting, buffering, ended, pace } = this.buffer;
    const { received, startedAt } = this;
    this.unreported = 0;
    const heard = { received, position, played, underruns, starved, lost };
    this.port.postMessage({ ...heard, wanted, waiting, buffering, ended, pace, startedAt });
  }
}

registerProcessor("playout", PlayoutProcessor);
