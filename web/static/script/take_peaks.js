// The peaks of takes' waveforms, requested from the server a few takes at a time.

const MAX_TAKES = 40; // in one request, the server's limit
const PAUSE = 150; // ms between requests
const RETRY = 15_000; // ms until failed takes may be requested again

export class TakePeaks {
  // request(takes): resolves to the peaks by take, or to null if it failed. show(): shows the waveforms, and thereby calls
  // `of`; called when peaks have arrived or may be requested again. after(ms, done): a timer.
  constructor(request, show, after = (ms, done) => setTimeout(done, ms)) {
    Object.assign(this, { request, show, after, busy: false });
    this.known = new Map(); // by take; null while they are requested
    this.wanted = new Set();
  }

  // The peaks of a take; null until they have arrived.
  of(take) {
    if (!take || this.known.has(take)) return this.known.get(take);
    this.known.set(take, null);
    this.wanted.add(take);
    if (!this.busy) this.fetchSoon();
    return null;
  }

  fetchSoon() {
    this.busy = this.wanted.size > 0;
    if (this.busy) this.after(PAUSE, () => this.fetch());
  }

  async fetch() {
    const takes = [...this.wanted].slice(0, MAX_TAKES);
    takes.forEach((take) => this.wanted.delete(take));
    const peaks = await this.request(takes);
    if (peaks) {
      for (const [take, values] of Object.entries(peaks)) this.known.set(take, values);
      this.show();
    } else {
      takes.forEach((take) => this.known.delete(take));
      this.after(RETRY, () => this.show());
    }
    this.fetchSoon();
  }
}
