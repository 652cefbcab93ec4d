// Whether the server answers. It is asked every few seconds while the page is seen, and at once when a request failed.

const PERIOD = 3_000; // ms between two questions
const AWAY = 1_000; // while it does not answer
const SLOW = 2; // questions in a row without an answer in time, after which it counts as gone

export class ServerWatch {
  // ask(): resolves to what the server is, { process, page, admitted }; rejects with a TimeoutError where it takes too
  // long. gone(): it does not answer. back(now, before): it answers again, or another process does. hidden(): whether
  // nobody sees the page.
  constructor({ ask, gone, back, hidden = () => false, later = setTimeout, forget = clearTimeout }) {
    Object.assign(this, { ask, gone, back, hidden, later, forget });
    this.server = null; // as it answered last
    this.away = false;
    this.slow = 0;
    this.timer = null;
    this.asking = null;
    this.waiting = []; // for it to be back
  }

  // Asks now, unless it is being asked. Resolves when that is known.
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

  // A request of the page failed.
  lost() {
    this.leave();
    this.look();
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
