// Marks of items, such as stars, which are sent one after the other: two of the same item could reach the server in reversed order.

import { whenLeaving } from "./leaving.js";

export class Marks {
  // send(id, marked): sends a mark; `over` is called when the server has answered it, `failed` when it has refused it or will not
  // answer. show(id, marked): shows the mark that an item then has.
  constructor(send, show) {
    Object.assign(this, { send, show, wanted: new Map(), sent: null });
    whenLeaving(() => this.wanted.forEach((marked, id) => send(id, marked)));
  }

  set(id, marked) {
    this.wanted.set(id, marked);
    if (!this.sent) this.over();
  }

  over() {
    [this.sent = null] = this.wanted;
    if (!this.sent) return;
    this.wanted.delete(this.sent[0]);
    this.send(...this.sent);
  }

  failed() {
    if (!this.sent) return; // it was sent while the page was left, which the browser has shown again
    const [id, marked] = this.sent;
    this.over();
    this.show(id, this.of(id, !marked));
  }

  // The mark to show of an item. known: the server's, which may not include the last one yet.
  of(id, known) {
    return this.wanted.get(id) ?? (this.sent?.[0] === id ? this.sent[1] : known);
  }
}
