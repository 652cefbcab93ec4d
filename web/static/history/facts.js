// The facts that an entry of the history shows.

import { secondsOf } from "../ui/format.js";
import { words } from "../ui/words.js";

export const FORMATS = { wav: "WAV", flac: "FLAC", mp3: "MP3", opus: "Opus" };

const joined = (facts) => facts.filter(Boolean).join(" · ");

// What one wants to know of an entry at a glance; `language` as browsers call it.
export function factsOf(entry, language) {
  const when = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
  return joined([
    when.format(new Date(entry.when)),
    entry.voice,
    secondsOf(entry.seconds, language),
    words("history.seed", { seed: entry.seed }),
    entry.ending === "cancelled" && words("history.stopped"),
    entry.ending === "length" && words("history.cut"),
    entry.script && words("history.of_script"),
  ]);
}

// And what it takes to say it again.
export function detailsOf(entry, language) {
  const number = (value) => new Intl.NumberFormat(language, { maximumFractionDigits: 2 }).format(value);
  const { temperature, top_p: topP, top_k: topK } = entry.settings;
  return joined([
    entry.model,
    temperature !== undefined && words("history.temperature", { value: number(temperature) }),
    topP !== undefined && words("history.top_p", { value: number(topP) }),
    topK !== undefined && words("history.top_k", { value: number(topK) }),
    entry.factor > 0 && words("history.factor", { factor: number(entry.factor) }),
  ]);
}

// What stands where there are no entries.
export function emptiness({ found, kept }) {
  if (!found) return words("history.no_match");
  return words(kept ? "history.none" : "history.none_kept");
}

// What names an entry to those who do not see it.
export const firstWords = (text) => (text.length > 60 ? `${text.slice(0, 60).trimEnd()}…` : text);
