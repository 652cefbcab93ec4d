// The takes of this page's session, newest first, and the two that are compared. The server describes the takes. The list
// stores their ids and the data that only this browser has.

export const MAX_TAKES = 40;
const TRIES = 12; // answers without an expected take until it counts as deleted
const PLACE = "reprise.takes";

export class TakeList {
  // storage: the session's, so that the list survives a reload; it may throw.
  constructor(storage) {
    this.storage = storage;
    this.known = new Map(); // by id, as the server sent them
    this.expected = new Map(); // takes that the server may not have stored yet: by id, the number of tries that are left
    this.chosen = []; // at most two to compare, the oldest choice first
    this.own = this.remembered(); // { id, ms: from the click to the first sound, or null, stalls: { times, seconds } }
  }

  remembered() {
    try {
      const own = JSON.parse(this.storage.getItem(PLACE) ?? "[]");
      return own.filter(({ id }) => typeof id === "string").slice(0, MAX_TAKES);
    } catch {
      return [];
    }
  }

  keep() {
    try {
      this.storage.setItem(PLACE, JSON.stringify(this.own));
    } catch {
      // the list then lasts as long as the page
    }
  }

  get ids() {
    return this.own.map(({ id }) => id);
  }

  get rows() {
    return this.own.filter(({ id }) => this.known.has(id)).map(({ id, ...heard }) => ({ ...this.known.get(id), ...heard }));
  }

  // Puts a take at the top. What is null stays as it is for a listed take. group: the same for all takes of a text that
  // were requested at once.
  add(id, ms = null, stalls = null, group = null) {
    const given = Object.entries({ ms, stalls, group }).filter(([, value]) => value !== null);
    const listed = this.own.find((take) => take.id === id);
    const take = { id, ms: null, stalls: null, ...listed, ...Object.fromEntries(given) };
    this.own = [take, ...this.own.filter((other) => other !== listed)].slice(0, MAX_TAKES);
    this.keep();
  }

  // As `add`, for a take that the server stores once it notices that the connection broke off.
  expect(id, ...given) {
    this.expected.set(id, TRIES);
    this.add(id, ...given);
  }

  // Whether to ask again for expected takes.
  get waits() {
    return this.expected.size > 0;
  }

  // The takes of the latest group in order of arrival; [] if there are fewer than two.
  get group() {
    const { rows } = this;
    const { group } = rows.find((take) => take.group) ?? {};
    const members = group ? rows.filter((take) => take.group === group).reverse() : [];
    return members.length > 1 ? members : [];
  }

  // Removes a take from its group.
  ungroup(id) {
    for (const take of this.own) if (take.id === id) delete take.group;
    this.keep();
  }

  // Notes the time to the first sound, which may come after the take's end.
  heard(id, ms) {
    const take = this.own.find((own) => own.id === id);
    if (!take || take.ms !== null) return;
    take.ms = ms;
    this.keep();
  }

  // Notes how often its playback had to wait, which may go on after the take's end.
  stalled(id, stalls) {
    const take = this.own.find((own) => own.id === id);
    if (!take) return;
    take.stalls = stalls;
    this.keep();
  }

  // takes: known to the server. gone: ids of missing takes, which are deleted unless they are expected.
  answer({ takes, gone: missing }) {
    const gone = missing.filter((id) => !this.isExpected(id));
    takes.forEach((take) => this.known.set(take.id, take));
    takes.forEach(({ id }) => this.expected.delete(id));
    gone.forEach((id) => this.known.delete(id));
    this.own = this.own.filter(({ id }) => !gone.includes(id));
    this.chosen = this.chosen.filter((id) => !gone.includes(id));
    this.keep();
  }

  // Whether a missing take is still expected. Counts a try.
  isExpected(id) {
    const left = this.expected.get(id) ?? 0;
    if (left > 1) this.expected.set(id, left - 1);
    else this.expected.delete(id);
    return left > 1;
  }

  // Toggles a take to compare; a third one replaces the oldest choice.
  choose(id) {
    const without = this.chosen.filter((other) => other !== id);
    this.chosen = without.length < this.chosen.length ? without : [...without, id].slice(-2);
    return this.chosen;
  }
}
