// One opening of the microphone: a countdown, then a recording, until it is stopped, is full, or the microphone is lost.

import { Microphone } from "./microphone.js";
import { Countdown, Meter, Recording } from "./recording.js";

const COUNT_FROM = 3;

export class Capture {
  // longest: seconds of a recording. heard(): there is new sound. openMicrophone: as Microphone.open.
  constructor(longest, heard, openMicrophone = Microphone.open) {
    Object.assign(this, { longest, heard, openMicrophone, microphone: null, countdown: null, recording: null });
    this.meter = new Meter();
    this.ending = ""; // "stopped", "full" or "lost"; the first one stays
    this.ended = new Promise((resolve) => (this.settle = resolve));
  }

  // Rejects as getUserMedia does.
  async open() {
    this.microphone = await this.openMicrophone((samples) => this.hear(samples), () => this.end("lost"));
  }

  // tick, wait: as for Countdown. Resolves to whether it came to its end.
  countDown(tick, wait) {
    this.countdown = new Countdown(COUNT_FROM, tick, wait);
    return this.countdown.over;
  }

  // Resolves when the recording has ended. The microphone's last samples are added until `close` resolves.
  async record() {
    this.recording = new Recording(this.microphone.rate, this.longest);
    await this.ended;
  }

  hear(samples) {
    if (!this.microphone) return;
    this.meter.hear(samples, this.microphone.rate);
    this.recording?.hear(samples);
    this.heard();
    if (this.recording?.full) this.end("full");
  }

  // Ends the countdown or the recording. Has no effect while the microphone is being opened.
  end(ending) {
    if (!this.countdown) return;
    this.ending ||= ending;
    this.countdown.cancel();
    this.settle();
  }

  close() {
    return this.microphone.close();
  }
}
