// Posts the microphone's samples in chunks of PIECE frames. After "stop" it posts the rest, then null.

const PIECE = 1024; // frames

registerProcessor(
  "capture",
  class extends AudioWorkletProcessor {
    constructor() {
      super();
      this.piece = new Float32Array(PIECE);
      this.filled = 0;
      this.live = true;
      this.port.onmessage = () => this.stop();
    }

    process([[heard]]) {
      for (const value of heard ?? []) {
        this.piece[this.filled++] = value;
        if (this.filled === PIECE) this.send();
      }
      return this.live;
    }

    send() {
      this.port.postMessage(this.piece.slice(0, this.filled));
      this.filled = 0;
    }

    stop() {
      if (this.filled) this.send();
      this.port.postMessage(null);
      this.live = false;
    }
  },
);
