// The facts that an entry of the history shows.

import { joined, lengthOf, momentOf } from "../ui/format.js";
import { words } from "../ui/words.js";

// The summary of an entry. language: a BCP 47 tag.
export function factsOf(entry, language) {
  return joined([
    momentOf(entry.when, language),
    entry.voice,
    lengthOf(entry.seconds, language),
    words("history.seed", { seed: String(entry.seed) }),
    entry.ending === "cancelled" && words("history.stopped"),
    entry.ending === "disconnected" && words("history.disconnected"),
    entry.ending === "length" && words("history.cut"),
    entry.ending === "short" && words("history.short"),
    entry.script && words("history.of_script"),
  ]);
}

// The model and settings that an entry was spoken with.
export function detailsOf(entry, language) {
  const number = (value) => new Intl.NumberFormat(language, { maximumFractionDigits: 2 }).format(value);
  const { temperature, top_p: topP, top_k: topK, speed } = entry.settings;
  return joined([
    entry.model,
    temperature !== undefined && words("history.temperature", { value: number(temperature) }),
    topP !== undefined && words("history.top_p", { value: number(topP) }),
    topK !== undefined && words("history.top_k", { value: number(topK) }),
    speed !== undefined && words("history.speed", { value: number(speed) }),
    entry.factor > 0 && words("history.factor", { factor: number(entry.factor) }),
  ]);
}

// The text for an empty list.
export function emptiness({ unfiltered, kept }) {
  if (!unfiltered) return words("history.no_match");
  return words(kept ? "history.none" : "history.none_kept");
}

// The start of a text, as a name for screen readers.
export const firstWords = (text) => (text.length > 60 ? `${text.slice(0, 60).trimEnd()}…` : text);
