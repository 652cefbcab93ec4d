// Polls whether the server answers: every few seconds while the page is visible, and at once when a request fails.

const PERIOD = 3_000; // ms between polls
const AWAY = 1_000; // ms between polls while it does not answer
const SLOW = 2; // timeouts in a row, without any other answer, after which the server counts as gone

export class ServerWatch {
  // ask(): resolves to the server's { process, page, admitted }; rejects with a TimeoutError if it takes too long. gone():
  // the server does not answer. back(now, before): it answers again, or a new process does. hidden(): whether the page
  // is hidden.
  constructor({ ask, gone, back, hidden = () => false, later = setTimeout, forget = clearTimeout }) {
    Object.assign(this, { ask, gone, back, hidden, later, forget });
    this.server = null; // its last answer
    this.away = false;
    this.slow = 0;
    this.timer = null;
    this.asking = null;
    this.waiting = []; // resolve functions of `present`
  }

  // Polls now, unless a poll is under way. Resolves when the poll is finished.
  look() {
    this.forget(this.timer);
    this.asking ??= this.ask()
      .then((server) => this.answered(server), (error) => this.missed(error))
      .finally(() => this.rest());
    return this.asking;
  }

  rest() {
    this.asking = null;
    if (this.away || !this.hidden()) this.timer = this.later(() => this.look(), this.away ? AWAY : PERIOD);
  }

  // Resolves when the server answers: at once, unless it is gone.
  present() {
    return this.away ? new Promise((resolve) => this.waiting.push(resolve)) : Promise.resolve();
  }

  // Called when a request of the page failed.
  lost() {
    this.leave();
    this.look();
  }

  // Called when an answer to another request has arrived. On a slow connection, polls wait behind the page's files.
  heard() {
    this.slow = 0;
  }

  answered(server) {
    const { away, server: before } = this;
    Object.assign(this, { server, away: false, slow: 0 });
    if (away || (before && before.process !== server.process)) this.back(server, before ?? server);
    this.waiting.splice(0).forEach((resolve) => resolve());
  }

  missed(error) {
    this.slow += 1;
    if (error.name !== "TimeoutError" || this.slow >= SLOW) this.leave();
  }

  leave() {
    if (this.away) return;
    this.away = true;
    this.gone();
  }
}
