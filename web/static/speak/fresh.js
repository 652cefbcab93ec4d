// Links are good for minutes only. `ask` has the page sent new ones; whoever is about to use one waits for it here.

const LINKS_LAST = 20 * 60_000; // ms; less than the server gives them

class Fresh {
  constructor(ask, now = () => performance.now()) {
    Object.assign(this, { ask, now, at: -Infinity, waiting: [] });
  }

  // New links have come.
  come() {
    this.at = this.now();
    this.waiting.splice(0).forEach((go) => go());
  }

  // A promise that is kept at once while the links are good.
  links() {
    if (this.now() - this.at < LINKS_LAST) return Promise.resolve();
    return new Promise((go) => {
      this.waiting.push(go);
      if (this.waiting.length === 1) this.ask();
    });
  }
}
