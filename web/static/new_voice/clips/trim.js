// The chosen part of a clip: two ends that never cross. Times in seconds.

const SHORTEST = 0.1;
const FINE = 0.01;
const COARSE = 0.1;
const LEAP = 1;

// The step by which a key moves an end; null for any other key. Up is later, as with sliders.
export function keyStep({ key, shiftKey }) {
  const step = shiftKey ? COARSE : FINE;
  const steps = {
    ArrowLeft: -step, ArrowDown: -step, ArrowRight: step, ArrowUp: step,
    PageDown: -LEAP, PageUp: LEAP, Home: -Infinity, End: Infinity,
  };
  return steps[key] ?? null;
}

export class Trim {
  constructor(seconds, start = 0, end = seconds) {
    this.seconds = seconds;
    this.shortest = Math.min(SHORTEST, seconds);
    this.set(start, end);
  }

  set(start, end) {
    this.start = 0;
    this.end = this.seconds;
    this.move("end", end);
    this.move("start", start);
  }

  // end: "start" or "end". The time is rounded to milliseconds, except at the bounds.
  move(end, time) {
    const [least, most] = this.bounds(end);
    const whole = Math.round(time * 1000) / 1000;
    if (time <= least) this[end] = least;
    else if (time >= most) this[end] = most;
    else this[end] = Math.max(least, Math.min(most, whole));
  }

  nudge(end, step) {
    this.move(end, this[end] + step);
  }

  bounds(end) {
    return end === "start" ? [0, this.end - this.shortest] : [this.start + this.shortest, this.seconds];
  }

  // The end that is closer to a time.
  nearest(time) {
    return Math.abs(time - this.start) <= Math.abs(time - this.end) ? "start" : "end";
  }

  get length() {
    return this.end - this.start;
  }

  // Whether these are its ends, within the finest step.
  is(start, end) {
    return Math.abs(start - this.start) < FINE && Math.abs(end - this.end) < FINE;
  }

  get whole() {
    return this.start === 0 && this.end === this.seconds;
  }
}
