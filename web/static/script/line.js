// Questions to the server, one after the other: each is put when the one before was answered, so that no answer is
// overtaken or lost. It knows nothing of the page.

const PATIENCE = 20_000; // ms for an answer

class Line {
  // put(question): hands it to the server.
  constructor(put, patience = PATIENCE) {
    Object.assign(this, { put, patience, number: 0, open: null, before: Promise.resolve() });
  }

  // make(): the question, made when its turn has come. Gives its answer, null when none came.
  ask(make) {
    this.before = this.before.then(() => this.turn(make()));
    return this.before;
  }

  turn(question) {
    return new Promise((resolve) => {
      const asked = ++this.number;
      const timer = setTimeout(() => this.close(null), this.patience);
      this.open = { asked, timer, resolve };
      this.put({ ...question, asked });
    });
  }

  // An answer from the server; one that was given up already is nothing.
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
