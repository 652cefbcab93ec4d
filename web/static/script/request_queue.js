// Requests to the server, one at a time: each is sent after the previous one was answered, so that answers stay in order.

const TIMEOUT = 20_000; // ms for an answer

export class RequestQueue {
  // send(request): sends it to the server. present(): resolves when the server is reachable. last(): whether the page is
  // unloading, so that no answer can be awaited.
  constructor(send, { timeout = TIMEOUT, present = () => Promise.resolve(), last = () => false } = {}) {
    Object.assign(this, { send, timeout, present, last, number: 0, open: null, before: Promise.resolve(), left: new Map() });
    this.took = 0; // ms until the last answer, without the time for which the server was gone
  }

  // make(): creates the request when its turn has come. Resolves to its answer, null if none came.
  ask(make) {
    if (this.last()) return this.leave(make());
    this.before = this.before.then(this.present).then(() => this.turn(make()));
    return this.before;
  }

  // Sends a request at once. Resolves to its answer, if one still arrives.
  leave(request) {
    const number = ++this.number;
    this.send({ ...request, number });
    return new Promise((resolve) => this.left.set(number, resolve));
  }

  turn(request) {
    return new Promise((resolve) => {
      const number = ++this.number;
      this.open = { request: { ...request, number }, number, resolve };
      this.post();
    });
  }

  post() {
    this.posted = performance.now();
    this.open.timer = setTimeout(() => this.close(null), this.timeout);
    this.send(this.open.request);
  }

  // Called when the server is gone: the open request no longer times out.
  hold() {
    clearTimeout(this.open?.timer);
  }

  // Called when the server is back: sends the open request again.
  again() {
    if (!this.open) return;
    this.hold();
    this.post();
  }

  // Takes an answer of the server; late ones are ignored.
  receive(answer) {
    if (this.open && answer?.number === this.open.number) this.close(answer);
    this.left.get(answer?.number)?.(answer);
    this.left.delete(answer?.number);
  }

  close(answer) {
    const { timer, resolve } = this.open;
    clearTimeout(timer);
    this.open = null;
    this.took = performance.now() - this.posted;
    resolve(answer);
  }
}
