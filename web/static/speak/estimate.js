// Estimates how long a text takes to speak. The server's own estimate is in engine/text/timing.py.

// Seconds per character of a kind; the first kind that matches counts.
const KINDS = [
  ["\\p{N}", 0.45],
  ["\\p{Script=Han}", 0.25],
  ["[\\p{Script=Hangul}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Ethiopic}]", 0.2],
  ["\\p{Lu}{2,}", 0.3], // acronyms are spelled
  ["[\\p{Script=Latin}\\p{Script=Cyrillic}\\p{Script=Greek}\\p{Script=Armenian}\\p{Script=Georgian}]", 1 / 15],
  ["\\p{L}", 0.1],
  ["\\p{M}", 0.06],
  ["[\\p{Sentence_Terminal}…\\n]", 0.5],
  ["[\\p{Pd},:;،、]", 0.25],
  ["[\\p{S}%&@#*/§]", 0.5],
  ["\\s", 0.01],
  ["[^]", 0.05],
];
const KIND = new RegExp(KINDS.map(([kind]) => `(${kind})`).join("|"), "gu");

export function speakingTime(text) {
  let time = 0;
  for (const match of text.matchAll(KIND)) {
    const kind = match.findIndex((found, i) => i > 0 && found !== undefined) - 1;
    time += KINDS[kind][1] * [...match[0]].length;
  }
  return time;
}

// Seconds: rounded up below 10, to multiples of 5 below 90, and to multiples of 30 above.
export const roughly = (time) => (time < 10 ? Math.ceil(time) : Math.round(time / (time < 90 ? 5 : 30)) * (time < 90 ? 5 : 30));

// The number of code points, and rough seconds at a speed.
export function measured(text, speed = 1) {
  const trimmed = text.trim();
  return { count: [...trimmed].length, seconds: roughly(speakingTime(trimmed) / speed) };
}
