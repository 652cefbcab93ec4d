// Formats times and numbers.

import { isolated, words } from "./words.js";

// Facts in one line; empty ones are left out.
export const joined = (facts) => facts.filter(Boolean).map(isolated).join(" · ");

// "1:05", "1:02:05".
export function clock(time) {
  const [seconds, minutes, hours] = [time % 60, (time / 60) % 60, time / 3600].map(Math.floor);
  const two = (value) => String(value).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
}

export const percent = (share, language) => new Intl.NumberFormat(language, { style: "percent" }).format(share);

// A number with `digits` decimals, in the format of the language.
export const decimals = (value, digits, language) =>
  new Intl.NumberFormat(language, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);

// "1.8 s", in the format of the language: "1,8 s" in German, "1.8 秒" in Japanese and Chinese. No line ends within it.
export function secondsOf(value, language, digits = 1) {
  const unit = /^(ja|zh)\b/.test(language) ? "秒" : "s";
  return `${decimals(value, digits, language)}\u00a0${unit}`;
}

// A length of speech: under ten seconds "1.8 s", then "0:12". Clips of voices are always in seconds, as their limits are.
export const lengthOf = (seconds, language, digits = 1) =>
  seconds < 9.95 ? secondsOf(seconds, language, digits) : clock(Math.max(10, seconds)); // 9.95 seconds are "0:10"

// A date and time. iso: in ISO 8601.
export const momentOf = (iso, language) =>
  new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }).format(new Date(iso));

// The text about playback stalls, { times, seconds }; "" for none.
export function stallsOf(stalls, language) {
  if (!stalls?.times) return "";
  return words("player.stalls", { times: stalls.times, seconds: secondsOf(stalls.seconds, language) });
}

// Milliseconds from the click to the first sound; null while there is none.
export function firstSound({ clickedAt, firstSoundAt }) {
  return firstSoundAt === null ? null : Math.max(0, Math.round(firstSoundAt - clickedAt));
}
