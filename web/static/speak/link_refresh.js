// Links are valid for minutes only. LinkRefresh requests new ones when they are needed, and waits for them.

export const LINKS_LAST = 20 * 60_000; // ms; less than the server's links are valid

export class LinkRefresh {
  // request(): has the server send new links.
  constructor(request, now = () => performance.now()) {
    Object.assign(this, { request, now, at: -Infinity, waiting: [] });
  }

  // Called when new links have arrived.
  arrived() {
    this.at = this.now();
    this.waiting.splice(0).forEach((resolve) => resolve());
  }

  // Resolves when the links are valid: at once, or after new ones have arrived.
  ready() {
    if (this.now() - this.at < LINKS_LAST) return Promise.resolve();
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      if (this.waiting.length === 1) this.request();
    });
  }
}
