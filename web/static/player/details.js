// The transport's information about a sound: the portrait and the text, and the Details popover.

import { WordClock } from "./word_clock.js";
import { create } from "../ui/elements.js";
import { decimals, lengthOf } from "../ui/format.js";
import { showPortrait, voiceOf } from "../library/portraits.js";
import { speakingTime } from "../speak/estimate.js";
import { pageLanguage, words } from "../ui/words.js";

// Facts of a sound, all optional: { text, words: their times, as WordClock takes them, ending: its stop reason, voice: { id,
// name }, seed, model, settings, links, tags }.
export const factsOf = (sound) => sound?.facts ?? {};

const CUT_OFF = ["cancelled", "disconnected", "error"]; // stop reasons of takes that lack the rest of their text

// Estimated seconds of the whole text of a sound that has only a part of it; 0 if it has all of it.
export function expectedOf(sound) {
  if (!sound.complete) return sound.span;
  const { text = "", ending, settings } = factsOf(sound);
  return CUT_OFF.includes(ending) ? Math.max(sound.seconds, speakingTime(text) / (settings?.speed ?? 1)) : 0;
}

// Text keys of the settings, by their names in the engine.
const SETTINGS = {
  temperature: "player.temperature",
  top_p: "player.top_p",
  top_k: "player.top_k",
  speed: "player.take_speed",
  mended: "player.repaired",
};

function detailsOf(sound, language) {
  const { voice, seed, model, settings = {} } = factsOf(sound);
  const rows = [
    ["player.voice", voiceOf(voice)?.name],
    ["player.length", sound?.length ? lengthOf(sound.seconds, language) : ""],
    ["player.seed", seed === undefined || seed === null ? "" : String(seed)],
    ["player.model", model],
    ...Object.entries(SETTINGS).map(([name, key]) => [key, numberOf(settings[name], language)]),
  ];
  return rows.filter(([, value]) => value).map(([key, value]) => [words(key), value]);
}

const numberOf = (value, language) =>
  value === undefined ? "" : decimals(value, Number.isInteger(value) ? 0 : 2, language);

export function listDetails(list, sound) {
  const rows = detailsOf(sound, pageLanguage());
  list.replaceChildren(...rows.flatMap(([name, value]) => [create("dt", { text: name }), create("dd", { text: value })]));
}

const MARKABLE = 20_000; // characters: an element for each word of a longer text would block the page
const BEGINNING = 300; // characters that are shown of such a text

// The text of the loaded sound, with the word that is heard marked.
export class SpokenLine {
  constructor(portrait, line) {
    Object.assign(this, { portrait, line, rendered: null, clock: null, marked: -1 });
  }

  show(sound) {
    const { text = "", voice } = factsOf(sound);
    showPortrait(this.portrait, voiceOf(voice) ?? {});
    if (text === this.rendered) return;
    this.rendered = text;
    this.clock = text && text.length <= MARKABLE ? new WordClock(text, pageLanguage()) : null;
    this.marked = -1;
    this.line.hidden = !text;
    if (this.clock) this.line.replaceChildren(...this.clock.pieces.map(({ text: piece }) => create("span", { text: piece })));
    else this.line.textContent = text.slice(0, BEGINNING);
    this.line.scrollTop = 0;
  }

  mark(sound, time) {
    if (!this.clock || !sound?.length) return;
    const at = time > 0 ? this.clock.at(time, sound.peaks.values, expectedOf(sound), factsOf(sound).words) : -1;
    if (at === this.marked) return;
    const spans = this.line.children;
    const from = Math.min(at, this.marked);
    const to = Math.max(at, this.marked);
    for (let i = Math.max(0, from); i <= to; i++) {
      spans[i].toggleAttribute("data-spoken", i < at);
      spans[i].toggleAttribute("data-now", i === at);
    }
    this.marked = at;
    if (at < 0) this.line.scrollTop = 0;
    else keepInSight(this.line, spans[at]);
  }
}

// Scrolls by whole lines, so that none is cut off.
function keepInSight(line, span) {
  const height = parseFloat(getComputedStyle(line).lineHeight);
  const top = Math.floor((span.offsetTop + span.offsetHeight / 2) / height) * height;
  if (top < line.scrollTop || top + height > line.scrollTop + line.clientHeight + 1) line.scrollTop = top;
}
