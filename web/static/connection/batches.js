// Values of items, such as waveforms of takes, requested from the server a few items at a time.

const MOST = 40; // items in one request, the server's limit
const PAUSE = 150; // ms between requests
const RETRY = 15_000; // ms until failed items may be requested again

export class Batches {
  // request(items): resolves to the values by item, or to null if it failed. show(): shows the values, and thereby calls
  // `of`; called when values have arrived or may be requested again. after(ms, done): a timer.
  constructor(request, show, after = (ms, done) => setTimeout(done, ms)) {
    Object.assign(this, { request, show, after, busy: false });
    this.known = new Map(); // by item; null while it is requested
    this.wanted = new Set();
  }

  // The value of an item; null until it has arrived.
  of(item) {
    if (!item || this.known.has(item)) return this.known.get(item);
    this.known.set(item, null);
    this.wanted.add(item);
    if (!this.busy) this.fetchSoon();
    return null;
  }

  // Forgets an item without a value, so that `of` requests it again.
  forget(item) {
    if (!this.known.get(item)) this.known.delete(item);
  }

  fetchSoon() {
    this.busy = this.wanted.size > 0;
    if (this.busy) this.after(PAUSE, () => this.fetch());
  }

  async fetch() {
    const items = [...this.wanted].slice(0, MOST);
    items.forEach((item) => this.wanted.delete(item));
    const values = await this.request(items);
    if (values) {
      for (const [item, value] of Object.entries(values)) this.known.set(item, value);
      this.show();
    } else {
      items.forEach((item) => this.known.delete(item));
      this.after(RETRY, () => this.show());
    }
    this.fetchSoon();
  }
}
