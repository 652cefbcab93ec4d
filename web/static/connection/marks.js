// Marks of items: stars of takes, and favourites. They are sent one after the other, from whatever tab: two of the same item could
// reach the server in reversed order.

import { whenLeaving } from "./leaving.js";

export class Marks {
  constructor() {
    Object.assign(this, { wanted: new Map(), sent: null, shows: [] }); // wanted: { marked, send } by id
    whenLeaving(() => this.wanted.forEach(({ send }) => send()));
  }

  // show(id, marked): shows the mark that an item has after a refusal. Items are of all tabs.
  connect(show) {
    this.shows.push(show);
  }

  // send(): sends the mark; `over` is called when the server has answered it, `failed` when it has refused it or will not
  // answer.
  set(id, marked, send) {
    this.wanted.set(id, { marked, send });
    if (!this.sent) this.over();
  }

  over() {
    const [[id, mark] = []] = this.wanted;
    this.sent = mark ? { id, marked: mark.marked } : null;
    if (!mark) return;
    this.wanted.delete(id);
    mark.send();
  }

  failed() {
    if (!this.sent) return; // it was sent while the page was left, which the browser has shown again
    const { id, marked } = this.sent;
    this.over();
    for (const show of this.shows) show(id, this.of(id, !marked));
  }

  // The mark to show of an item. known: the server's, which may not include the last one yet.
  of(id, known) {
    return this.wanted.get(id)?.marked ?? (this.sent?.id === id ? this.sent.marked : known);
  }
}

export const marks = new Marks(); // of this page
