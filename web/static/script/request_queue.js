// Requests to the server, one at a time: each is sent when the former was answered, so that answers stay in order.

const PATIENCE = 20_000; // ms for an answer

export class RequestQueue {
  // send(request): hands it to the server.
  constructor(send, patience = PATIENCE) {
    Object.assign(this, { send, patience, number: 0, open: null, before: Promise.resolve() });
  }

  // make(): makes the request when its turn has come. Resolves to its answer, null if none came.
  ask(make) {
    this.before = this.before.then(() => this.turn(make()));
    return this.before;
  }

  turn(request) {
    return new Promise((resolve) => {
      const asked = ++this.number;
      const timer = setTimeout(() => this.close(null), this.patience);
      this.open = { asked, timer, resolve };
      this.send({ ...request, asked });
    });
  }

  // Takes an answer of the server; late ones are ignored.
  hear(answer) {
    if (this.open && answer?.asked === this.open.asked) this.close(answer);
  }

  close(answer) {
    const { timer, resolve } = this.open;
    clearTimeout(timer);
    this.open = null;
    resolve(answer);
  }
}
