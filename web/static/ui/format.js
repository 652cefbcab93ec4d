// Times as the page writes them.

export const clock = (time) => `${Math.floor(time / 60)}:${String(Math.floor(time % 60)).padStart(2, "0")}`;

// "1.8 s", as the language writes it: "1,8 s" in German, "1.8 秒" in Japanese and Chinese.
export function secondsOf(value, language) {
  const tenth = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  const unit = /^(ja|zh)\b/.test(language) ? "秒" : "s";
  return `${new Intl.NumberFormat(language, tenth).format(value)} ${unit}`;
}

export const tenths = (time) => `${time.toFixed(1)} s`;
export const hundredths = (time) => `${time.toFixed(2)} s`;

// Milliseconds from the click to the first sound; null while there is none.
export function firstSound({ clickedAt, firstSoundAt }) {
  return firstSoundAt === null ? null : Math.max(0, Math.round(firstSoundAt - clickedAt));
}
