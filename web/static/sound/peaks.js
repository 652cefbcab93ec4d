// The peaks of a sound, for drawing its waveform.

export const PEAKS_PER_SECOND = 50;

export class Peaks {
  // rate: Hz; scale: full scale of the samples.
  constructor(rate, scale = 1) {
    this.size = Math.max(1, Math.floor(rate / PEAKS_PER_SECOND)); // samples
    this.scale = scale;
    this.values = [];
  }

  // Adds samples at `start`. They replace everything from there on.
  add(start, samples) {
    const kept = Math.floor(start / this.size);
    this.values.length = Math.min(this.values.length, start % this.size ? kept + 1 : kept);
    for (let i = 0; i < samples.length; i++) {
      const moment = Math.floor((start + i) / this.size);
      const value = Math.abs(samples[i]) / this.scale;
      if (!(this.values[moment] >= value)) this.values[moment] = value;
    }
  }
}

// The maxima of `count` bars over a span of `values`, which may be longer than `values`; null for bars beyond their end.
export function barsOf(values, span, count) {
  const each = Math.max(span, 1) / count;
  return Array.from({ length: count }, (_, bar) => {
    const from = Math.floor(bar * each);
    const to = Math.max(from + 1, Math.floor((bar + 1) * each));
    if (from >= values.length) return null;
    let loudest = 0;
    for (let i = from; i < Math.min(to, values.length); i++) loudest = Math.max(loudest, values[i] ?? 0);
    return loudest;
  });
}
