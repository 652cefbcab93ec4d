// What the microphone gave, as it will be sent: 16 bits, and no more of it than a clip may have.
// Needs samples.js and wav.js.

class Recording extends Samples {
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

// Calls tick(3), tick(2), tick(1), a second apart, and is true a second later; false as soon as it is cancelled.
class Countdown {
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
