// The takes of this page's session, newest first: which there are, and which two are compared. It knows nothing of the
// page. What a take is, the server says; here are its id and what only this browser knows.

export const MOST_TAKES = 40;
const PLACE = "reprise.takes";

export class TakeList {
  // storage: of the session, so that a reload finds the list again; it may refuse.
  constructor(storage) {
    this.storage = storage;
    this.known = new Map(); // by id, as the server said
    this.chosen = []; // of the two to compare, the one of longest ago first
    this.own = this.remembered(); // { id, ms: from the click to the first sound, or null }
  }

  remembered() {
    try {
      const own = JSON.parse(this.storage.getItem(PLACE) ?? "[]");
      return own.filter(({ id }) => typeof id === "string").slice(0, MOST_TAKES);
    } catch {
      return [];
    }
  }

  keep() {
    try {
      this.storage.setItem(PLACE, JSON.stringify(this.own));
    } catch {
      // the list then lives as long as the page
    }
  }

  get ids() {
    return this.own.map(({ id }) => id);
  }

  get rows() {
    return this.own.filter(({ id }) => this.known.has(id)).map(({ id, ms }) => ({ ...this.known.get(id), ms }));
  }

  add(id, ms = null) {
    this.own = [{ id, ms }, ...this.own.filter((take) => take.id !== id)].slice(0, MOST_TAKES);
    this.keep();
  }

  // The first sound of a take came later than its end.
  heard(id, ms) {
    const take = this.own.find((own) => own.id === id);
    if (!take || take.ms !== null) return;
    take.ms = ms;
    this.keep();
  }

  // takes: what the server knows; gone: ids that it does not know any more.
  answer({ takes, gone }) {
    takes.forEach((take) => this.known.set(take.id, take));
    gone.forEach((id) => this.known.delete(id));
    this.own = this.own.filter(({ id }) => !gone.includes(id));
    this.chosen = this.chosen.filter((id) => !gone.includes(id));
    this.keep();
  }

  // Chooses a take to compare, or lets it go again; of three the one of longest ago goes.
  choose(id) {
    const without = this.chosen.filter((other) => other !== id);
    this.chosen = without.length < this.chosen.length ? without : [...without, id].slice(-2);
    return this.chosen;
  }
}
