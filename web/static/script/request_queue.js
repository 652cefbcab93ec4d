// Requests to the server, one at a time: each is sent after the previous one was answered, so that answers stay in order.

const PATIENCE = 20_000; // ms for an answer

export class RequestQueue {
  // send(request): sends it to the server. present(): resolves when the server is reachable. last(): whether the page is
  // unloading, so that no answer can be awaited.
  constructor(send, { patience = PATIENCE, present = () => Promise.resolve(), last = () => false } = {}) {
    Object.assign(this, { send, patience, present, last, number: 0, open: null, before: Promise.resolve(), left: new Map() });
  }

  // make(): creates the request when its turn has come. Resolves to its answer, null if none came.
  ask(make) {
    if (this.last()) return this.leave(make());
    this.before = this.before.then(this.present).then(() => this.turn(make()));
    return this.before;
  }

  // Sends a request at once. Resolves to its answer, if one still arrives.
  leave(request) {
    const asked = ++this.number;
    this.send({ ...request, asked });
    return new Promise((resolve) => this.left.set(asked, resolve));
  }

  turn(request) {
    return new Promise((resolve) => {
      const asked = ++this.number;
      this.open = { request: { ...request, asked }, asked, resolve };
      this.post();
    });
  }

  post() {
    this.open.timer = setTimeout(() => this.close(null), this.patience);
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
  hear(answer) {
    if (this.open && answer?.asked === this.open.asked) this.close(answer);
    this.left.get(answer?.asked)?.(answer);
    this.left.delete(answer?.asked);
  }

  close(answer) {
    const { timer, resolve } = this.open;
    clearTimeout(timer);
    this.open = null;
    resolve(answer);
  }
}
