// The page's copy of a script, updated by patches of web/tabs/script/views.py, and functions of its cards.

import { roughly, speakingTime } from "../speak/estimate.js";

export class ScriptCopy {
  constructor(id) {
    Object.assign(this, { id, version: "", head: null, order: [], cards: new Map() });
  }

  // Returns the changes: { changed: cards, moved: whether their order changed }; null if the patch does not apply.
  apply(patch) {
    if (patch.script !== this.id || (patch.since !== "" && patch.since !== this.version)) return null;
    if (patch.since === "") this.cards = new Map();
    for (const card of patch.cards) this.cards.set(card.id, card);
    if (patch.order) this.arrange(patch.order);
    Object.assign(this, { version: patch.version, head: patch.head });
    return { changed: patch.cards, moved: patch.order !== null };
  }

  arrange(order) {
    this.order = order;
    const kept = new Set(order);
    for (const id of this.cards.keys()) if (!kept.has(id)) this.cards.delete(id);
  }

  get list() {
    return this.order.map((id) => this.cards.get(id));
  }
}

// The speakers in the order of their first cards, null for the narrator: { speaker, cards, voices }.
export function castOf(cards) {
  const cast = new Map();
  for (const { speaker, voice } of cards) {
    const role = cast.get(speaker) ?? { speaker, cards: 0, voices: [] };
    role.cards += 1;
    if (!role.voices.includes(voice)) role.voices.push(voice);
    cast.set(speaker, role);
  }
  return [...cast.values()];
}

const times = new WeakMap(); // by card, which a patch replaces by another object

function timeOf(card) {
  if (!times.has(card)) times.set(card, speakingTime(card.text) / card.speed + card.pause);
  return times.get(card);
}

// The chapters: { id: of the first card, title, seconds: estimated }. name: the title of what precedes the first one.
export function chaptersOf(cards, name) {
  const chapters = [];
  for (const card of cards) {
    if (card.chapter || !chapters.length) chapters.push({ id: card.id, title: card.chapter ?? name, seconds: 0 });
    chapters.at(-1).seconds += timeOf(card);
  }
  return chapters.map((chapter) => ({ ...chapter, seconds: roughly(chapter.seconds) }));
}

// The cards of the chapters that begin with cards of these ids.
export function cardsOfChapters(cards, ids) {
  let included = false;
  return cards.filter((card, i) => {
    if (card.chapter || i === 0) included = ids.includes(card.id);
    return included;
  });
}

export const isComing = (card) => card.state === "queued" || card.state === "speaking";

// The next card to play from a position on: { card }, or { wait: card } until it is spoken; null at the end. Cards
// without a take, and those whose deletion can still be undone, are skipped.
export function nextToHear(cards, from, running, isDeleted = () => false) {
  for (const card of cards.slice(from)) {
    if (isDeleted(card)) continue;
    if (running && isComing(card)) return { wait: card };
    if (card.take) return { card };
  }
  return null;
}

// Where to split a text: at the caret, or between sentences if the caret is at an end. 0: nowhere.
export function partingPlace(text, caret) {
  const inside = (at) => text.slice(0, at).trim() !== "" && text.slice(at).trim() !== "";
  if (inside(caret)) return caret;
  const ends = [...text.matchAll(/[.!?…。！？]["'”’»)」』]*\s*/g)].map((found) => found.index + found[0].length);
  const middle = text.length / 2;
  return ends.filter(inside).sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle))[0] ?? 0;
}

// A place in a text, in the trimmed text.
export const trimmedPlace = (text, at) => Math.min(text.slice(0, at).trimStart().length, text.trim().length);

// The server counts code points, JavaScript UTF-16 units.
export const characters = (text) => [...text].length;
