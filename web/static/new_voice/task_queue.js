// Runs at most `most` asynchronous tasks at a time, in the order in which they were added.

export class TaskQueue {
  constructor(most) {
    Object.assign(this, { most, running: 0, waiting: [] });
  }

  // task(): returns a promise, whose result this resolves to.
  async run(task) {
    if (this.running < this.most) this.running += 1;
    else await new Promise((resolve) => this.waiting.push(resolve)); // for the place of a task that ends
    try {
      return await task();
    } finally {
      const next = this.waiting.shift();
      if (next) next();
      else this.running -= 1;
    }
  }
}
