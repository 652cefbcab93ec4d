// A growing buffer of 16-bit samples that arrive in chunks.

export class Samples {
  constructor(rate) {
    this.rate = rate; // Hz
    this.samples = new Int16Array(rate * 8);
    this.length = 0; // samples that have arrived
    this.lost = 0; // samples that never arrived
  }

  // Writes samples at `start`. A retried segment starts before the end and replaces everything from there.
  write(start, samples) {
    if (start > this.length) this.fillGap(start);
    this.reserve(start + samples.length);
    this.samples.set(samples, start);
    this.length = start + samples.length;
  }

  all() {
    return this.samples.subarray(0, this.length);
  }

  fillGap(start) {
    this.lost += start - this.length;
    this.samples.fill(0, this.length, start); // what is reserved later is 0
  }

  reserve(length) {
    if (length <= this.samples.length) return;
    const larger = new Int16Array(Math.max(length, this.samples.length * 2));
    larger.set(this.all());
    this.samples = larger;
  }
}
