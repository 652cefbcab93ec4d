// Links are valid for minutes only. LinkRefresh requests new ones when they are needed, and waits for them.

export const LINKS_LAST = 20 * 60_000; // ms; less than the server's links are valid
const TIMEOUT = 10_000; // ms for an answer; then the links are requested again

export class LinkRefresh {
  // request(): has the server send new links. after(ms, done): a timer.
  constructor(request, now = () => performance.now(), after = (ms, done) => setTimeout(done, ms)) {
    Object.assign(this, { request, now, after, at: -Infinity, waiting: [] });
  }

  // Called when new links have arrived.
  arrived() {
    const { waiting } = this;
    Object.assign(this, { at: this.now(), waiting: [] });
    waiting.forEach((resolve) => resolve());
  }

  // Resolves when the links are valid: at once, or after new ones have arrived.
  ready() {
    if (this.now() - this.at < LINKS_LAST) return Promise.resolve();
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      if (this.waiting.length === 1) this.ask();
    });
  }

  // Requests new links until they have arrived: an answer may be lost.
  ask() {
    const { waiting } = this;
    this.request();
    this.after(TIMEOUT, () => waiting === this.waiting && this.ask());
  }
}
