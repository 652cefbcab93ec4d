// Links are good for minutes only. LinkRefresh asks for new ones when they are needed, and waits until they are there.

export const LINKS_LAST = 20 * 60_000; // ms; less than the server gives them

export class LinkRefresh {
  // request(): has the server send new links.
  constructor(request, now = () => performance.now()) {
    Object.assign(this, { request, now, at: -Infinity, waiting: [] });
  }

  // New links have arrived.
  arrived() {
    this.at = this.now();
    this.waiting.splice(0).forEach((resolve) => resolve());
  }

  // A promise that resolves at once while the links are good.
  ready() {
    if (this.now() - this.at < LINKS_LAST) return Promise.resolve();
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      if (this.waiting.length === 1) this.request();
    });
  }
}
