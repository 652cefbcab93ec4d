// Times as the page writes them.

import { words } from "./words.js";

export const clock = (time) => `${Math.floor(time / 60)}:${String(Math.floor(time % 60)).padStart(2, "0")}`;

// A number with so many decimals, as the language writes it.
export const decimals = (value, digits, language) =>
  new Intl.NumberFormat(language, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);

// "1.8 s", as the language writes it: "1,8 s" in German, "1.8 秒" in Japanese and Chinese.
export function secondsOf(value, language, digits = 1) {
  const unit = /^(ja|zh)\b/.test(language) ? "秒" : "s";
  return `${decimals(value, digits, language)} ${unit}`;
}

// What the player had to wait for after it had begun: { times, seconds }; "" where it never had to.
export function stallsOf(stalls, language) {
  if (!stalls?.times) return "";
  return words("player.stalls", { times: stalls.times, seconds: secondsOf(stalls.seconds, language) });
}

// Milliseconds from the click to the first sound; null while there is none.
export function firstSound({ clickedAt, firstSoundAt }) {
  return firstSoundAt === null ? null : Math.max(0, Math.round(firstSoundAt - clickedAt));
}
