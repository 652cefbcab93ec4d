// The playout buffer of one take as it arrives: its samples and the playback position. It uses neither the page nor Web
// Audio, so that the audio thread, the plain-http fallback and the tests all run this same code.

import { Samples } from "../../sound/samples.js";
import { TimeStretch } from "./time_stretch.js";

export const FADE_SECONDS = 0.005; // short enough to be inaudible, long enough to avoid clicks
const START_SECONDS = 0.04; // a first chunk of this length starts at once
const MAX_LEAD_SECONDS = 10; // upper limit of the samples to wait for

export class PlayoutBuffer extends Samples {
  // rate: Hz. expected: estimated seconds of the take. pace: seconds of speech per second of waiting, if known. speed: of
  // playback, at the same pitch.
  constructor(rate, { expected = 0, pace = Infinity, speed = 1 } = {}) {
    super(rate);
    this.expected = expected * rate;
    this.pace = pace;
    this.position = 0; // of the next sample; fractional where the output has another rate
    this.complete = false; // no more samples will arrive
    this.wanted = true; // false: paused, or played to the end
    this.waiting = true; // for enough samples to start or to resume
    this.played = 0;
    this.underruns = 0; // times that it ran dry before the end
    this.starved = 0; // samples of silence that they caused
    this.dryFrom = null; // `starved` when it ran dry, until more samples have arrived
    this.gain = 0; // rises after a cut
    this.residue = 0; // the value that sounded at the cut, fading away
    this.fading = 0;
    this.last = 0;
    this.setSpeed(speed);
  }

  // now: seconds of a steady clock. If samples before the position are replaced, playback goes back to them.
  write(start, samples, now) {
    if (this.position > start) this.seek(start);
    super.write(start, samples);
    this.measure(samples.length, now);
  }

  // Takes over from another buffer, whose last value fades out under the new one.
  follow(before) {
    this.last = before.last;
    this.cut();
  }

  // Marks the take as complete. If the buffer ran dry at the last sample, that was the end and not an underrun.
  finish() {
    this.complete = true;
    if (this.dryFrom === null || this.position < this.length) return;
    this.underruns -= 1;
    this.starved = this.dryFrom;
    this.dryFrom = null;
  }

  play() {
    if (this.complete && this.position >= this.length) this.position = 0;
    this.wanted = true;
    this.waiting = true;
  }

  pause() {
    if (!this.wanted) return;
    this.cut();
    this.wanted = false;
  }

  seek(position) {
    this.cut();
    this.position = Math.max(0, Math.min(position, this.length));
  }

  setSpeed(speed) {
    this.cut();
    this.speed = speed;
    this.stretch = speed === 1 ? null : new TimeStretch(this);
  }

  // The position up to which samples can be played now.
  get playable() {
    return this.stretch && !this.complete ? this.length - this.stretch.ahead : this.length;
  }

  // Fills `out` with floats in [-1, 1]. step: samples of the take per sample of the output.
  read(out, step = 1) {
    this.settle();
    const fade = step / (FADE_SECONDS * this.rate);
    for (let i = 0; i < out.length; i++) {
      if (this.flowing && this.position >= this.playable) this.runDry();
      this.fading = Math.max(0, this.fading - fade);
      let value = this.residue * this.fading;
      if (this.flowing) {
        this.gain = Math.min(1, this.gain + fade);
        value += (this.stretch ? this.stretch.next(step) : this.at(this.position)) * this.gain;
        this.position = Math.min(this.position + step * this.speed, this.length);
        this.played += step;
      } else if (this.wanted && this.dryFrom !== null) {
        this.starved += step;
      }
      this.last = out[i] = value;
    }
  }

  get flowing() {
    return this.wanted && !this.waiting;
  }

  // Whether it is silent, because too few of the samples that have begun to arrive are buffered.
  get buffering() {
    return this.wanted && this.waiting && this.length > 0;
  }

  get ended() {
    return this.complete && this.position >= this.length;
  }

  // Starts or resumes when enough samples are buffered.
  settle() {
    const inHand = this.playable - this.position;
    if (this.wanted && this.waiting && inHand > 0 && (this.complete || inHand >= this.lead())) {
      this.waiting = false;
      this.dryFrom = null;
    }
  }

  // Called at the end, and when nothing can be played, for lack of samples or of time to schedule them.
  runDry() {
    this.cut();
    this.waiting = true;
    if (this.ended) this.wanted = false;
    else {
      this.underruns += 1;
      this.dryFrom = this.starved;
    }
  }

  // Samples to buffer before playback starts or resumes: the amount by which a slower engine will fall behind, doubled
  // after each underrun, because the estimate was wrong.
  lead() {
    const floor = this.underruns ? 0.25 * 2 ** Math.min(this.underruns - 1, 5) : START_SECONDS;
    const toCome = Math.max(this.expected - this.length, this.rate) / this.rate;
    const pace = this.pace / this.speed;
    const behind = pace < 1 ? 1.1 * toCome * (1 / pace - 1) + 0.2 : 0;
    return Math.min(MAX_LEAD_SECONDS, Math.max(floor, behind)) * this.rate;
  }

  measure(count, now) {
    if (this.firstAt === undefined) {
      this.firstAt = now;
      this.firstLength = count;
    } else if (now > this.firstAt && this.length > this.firstLength) {
      this.pace = (this.length - this.firstLength) / this.rate / (now - this.firstAt);
    }
  }

  cut() {
    this.stretch?.reset();
    this.residue = this.last;
    this.fading = 1;
    this.gain = 0;
  }

  at(position) {
    const whole = Math.floor(position);
    const part = position - whole;
    const here = this.samples[whole] / 32768;
    return part && whole + 1 < this.length ? here + part * (this.samples[whole + 1] / 32768 - here) : here;
  }
}
