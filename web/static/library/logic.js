// What the Library tab shows of the voices, and in which order. No page is needed for it.

// As the server compares texts: whatever the case, with or without accents.
const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

// A language's name in the page's language; what is none stays as it is.
function languageName(code, language) {
  if (!code) return "";
  try {
    return new Intl.DisplayNames([language], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

// Those that hold every word of a search in their name, description, tags or language.
function found(voices, search, language) {
  const wanted = folded(search).split(/\s+/).filter(Boolean);
  return voices.filter((voice) => {
    const about = [voice.name, voice.description, ...voice.tags, voice.language, languageName(voice.language, language)];
    const text = folded(about.join("\n"));
    return wanted.every((word) => text.includes(word));
  });
}

const ORDERS = {
  name: () => 0,
  newest: (one, other) => other.made.localeCompare(one.made),
  used: (one, other) => other.spoken - one.spoken,
  longest: (one, other) => other.seconds - one.seconds,
};

// What comes first in no other way comes first by its name.
function ordered(voices, order, language) {
  const byName = new Intl.Collator(language, { numeric: true, sensitivity: "base" });
  const compare = ORDERS[order] ?? ORDERS.name;
  return [...voices].sort((one, other) => compare(one, other) || byName.compare(one.name, other.name));
}

// Tags as they are typed, with commas between them; the Japanese and the Chinese comma count as well.
const tagsOf = (text) => text.split(/[,，、]/).map((tag) => tag.trim()).filter(Boolean);

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];

function bytesIn(count, language) {
  const power = count < 1000 ? 0 : Math.min(Math.floor(Math.log10(count) / 3), UNITS.length - 1);
  const digits = power < 2 ? 0 : 1;
  return inUnit(count / 1000 ** power, UNITS[power], language, digits, power ? "short" : "long");
}

// The two largest units of a time: "2 min 5 s".
function timeIn(seconds, language) {
  const whole = Math.round(seconds);
  const parts = [[Math.floor(whole / 3600), "hour"], [Math.floor(whole / 60) % 60, "minute"], [whole % 60, "second"]];
  const first = Math.max(0, parts.findIndex(([count]) => count));
  const shown = parts.slice(first, first + 2).filter(([count]) => count);
  if (!shown.length) return inUnit(0, "second", language, 0);
  return shown.map(([count, unit]) => inUnit(count, unit, language, 0)).join(" ");
}

function inUnit(count, unit, language, digits, unitDisplay = "short") {
  const options = { style: "unit", unit, unitDisplay, maximumFractionDigits: digits };
  return new Intl.NumberFormat(language, options).format(count);
}

// A portrait: the heights of nine strokes, 0.25 to 1, and a colour's angle; always the same for the same voice.
function portrait(id) {
  const numbers = Array.from({ length: 10 }, (_, i) => parseInt(id.slice(3 * i, 3 * i + 3) || "0", 16) % 256);
  const strokes = numbers.slice(0, 9).map((number, i) => {
    const arch = 1 - Math.abs(i - 4) / 8;
    return 0.25 + 0.75 * arch * (number / 255);
  });
  return { strokes, hue: Math.round((numbers[9] / 256) * 360) };
}
