// A recording in 16-bit samples, limited to the longest allowed clip; the countdown before it, and the level meter.

import { Samples } from "../../sound/samples.js";
import { encodeWav, toInt16 } from "../../sound/wav.js";

export class Recording extends Samples {
  constructor(rate, limit) {
    super(rate);
    this.limit = limit * rate; // samples
  }

  hear(samples) {
    this.write(this.length, toInt16(samples.subarray(0, this.limit - this.length)));
  }

  get full() {
    return this.length >= this.limit;
  }

  get seconds() {
    return this.length / this.rate;
  }

  wav() {
    return encodeWav(this.all(), this.rate);
  }
}

// Calls tick(3), tick(2), tick(1), a second apart. `over` resolves to true a second later, or to false when cancelled.
export class Countdown {
  constructor(from, tick, wait = (done) => setTimeout(done, 1000)) {
    Object.assign(this, { left: from, tick, wait });
    this.over = new Promise((resolve) => (this.settle = resolve));
    this.step();
  }

  step() {
    if (this.left === 0) return this.settle(true);
    this.tick(this.left);
    this.left -= 1;
    this.wait(() => this.step());
  }

  cancel() {
    this.tick = () => {};
    this.settle(false);
  }
}

// A peak meter: it rises at once, falls slowly, and holds the peak for a while. Its clipping lamp stays lit long enough
// to be seen.

const FLOOR_DB = -60;
const FALL_DB = 24; // per second
const HOLD_SECONDS = 1.5;
const LAMP_SECONDS = 2;
const CLIPPED = 0.985; // of full scale; converters clip from about here

const decibels = (value) => Math.max(FLOOR_DB, Math.min(0, 20 * Math.log10(value + 1e-9)));

export class Meter {
  constructor() {
    this.level = FLOOR_DB;
    this.held = FLOOR_DB;
    this.clips = 0; // chunks with clipped samples
    this.heldFor = 0; // seconds
    this.lit = 0; // seconds that the lamp will stay on
  }

  hear(samples, rate) {
    let peak = 0;
    for (const value of samples) peak = Math.max(peak, Math.abs(value));
    const time = samples.length / rate;
    const heard = decibels(peak);
    this.level = Math.max(heard, this.level - FALL_DB * time, FLOOR_DB);
    this.hold(heard, time);
    this.lit = Math.max(0, this.lit - time);
    if (peak < CLIPPED) return;
    this.clips += 1;
    this.lit = LAMP_SECONDS;
  }

  hold(heard, time) {
    this.heldFor += time;
    if (heard < this.held && this.heldFor < HOLD_SECONDS) return;
    this.held = heard >= this.held ? heard : this.level;
    this.heldFor = 0;
  }

  get clipping() {
    return this.lit > 0;
  }
}

// The position of a level on the meter, 0 to 1.
export const onMeter = (level) => (level - FLOOR_DB) / -FLOOR_DB;
