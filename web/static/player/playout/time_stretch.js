// Plays samples faster or slower at their own pitch: waveform-similarity overlap-add (WSOLA; Verhelst and Roelands, 1993).
// Each step of the output cross-fades from the continuation of the last step to the place near the wanted position that
// matches it best.

const HOP_SECONDS = 0.02;
const SEARCH_SECONDS = 0.008; // in both directions: a period of the lowest voices
const COARSE = 4; // samples: step of the first search; the second one steps by one sample

export class TimeStretch {
  // buffer: a PlayoutBuffer. Its `position` advances as it is read.
  constructor(buffer) {
    const hop = Math.max(8, Math.round(HOP_SECONDS * buffer.rate));
    Object.assign(this, { buffer, hop, reach: Math.round(SEARCH_SECONDS * buffer.rate) });
    this.out = new Float32Array(hop);
    this.reset();
  }

  // Samples that must have arrived beyond the position.
  get ahead() {
    return 2 * this.hop + this.reach;
  }

  reset() {
    this.start = null; // start of the last step, in the take
    this.place = this.hop; // read position in `out`, which is used up
  }

  // Returns the next sample of the output, and advances by `step` samples.
  next(step) {
    while (this.place >= this.hop) {
      this.place -= this.hop;
      this.fill();
    }
    const value = this.out[Math.floor(this.place)];
    this.place += step;
    return value;
  }

  fill() {
    const { hop, out } = this;
    const wanted = Math.round(this.buffer.position);
    const goesOn = this.start === null ? wanted : this.start + hop;
    const start = this.start === null ? wanted : this.best(goesOn, wanted);
    for (let i = 0; i < hop; i++) {
      const share = 0.5 - 0.5 * Math.cos((Math.PI * (i + 0.5)) / hop);
      out[i] = this.at(goesOn + i) * (1 - share) + this.at(start + i) * share;
    }
    this.start = start;
  }

  // The place near `wanted` whose samples are most similar to the ones from `goesOn` on.
  best(goesOn, wanted) {
    const search = (from, to, step) => {
      let found = wanted;
      let most = -Infinity;
      for (let place = Math.max(0, from); place <= to; place += step) {
        const like = this.likeness(goesOn, place, step);
        if (like > most) [found, most] = [place, like];
      }
      return found;
    };
    const coarse = search(wanted - this.reach, wanted + this.reach, COARSE);
    return search(coarse - COARSE + 1, coarse + COARSE - 1, 1);
  }

  likeness(one, other, step) {
    let product = 0;
    let energy = 1e-9;
    for (let i = 0; i < this.hop; i += step) {
      const value = this.at(other + i);
      product += this.at(one + i) * value;
      energy += value * value;
    }
    return product / Math.sqrt(energy);
  }

  at(place) {
    return place < this.buffer.length ? this.buffer.samples[place] / 32768 : 0;
  }
}
