// Search, order, texts and portraits of the voices in the Library tab.

// Removes case and accents, as the server does to compare texts.
export const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

// The player's id of a voice's clip. agreed: when its speaker did, which changes with the clips.
export const soundOf = ({ id, agreed }) => `voice:${id}${agreed}`;

const languageNames = new Map(); // by language and code

// A language's name in the page's language; an unknown code as it is.
export function languageName(code, language) {
  if (!code) return "";
  const key = `${language} ${code}`;
  if (!languageNames.has(key)) languageNames.set(key, named(code, language));
  return languageNames.get(key);
}

function named(code, language) {
  try {
    return new Intl.DisplayNames([language], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

// The voices that have every word of a search in their name, description, tags or language.
export function found(voices, search, language) {
  const wanted = folded(search).split(/\s+/).filter(Boolean);
  if (!wanted.length) return [...voices];
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

export const ordered = (voices, order, language) => sorted(voices, ORDERS[order] ?? ORDERS.name, language);

// compare(one, other): of two voices. Those that it takes for equal are ordered by name.
export function sorted(voices, compare, language) {
  const names = new Intl.Collator(language, { numeric: true, sensitivity: "base" });
  return [...voices].sort((one, other) => compare(one, other) || names.compare(one.name, other.name));
}

// Splits a comma-separated list of tags. Full-width and ideographic commas count.
export const tagsOf = (text) => text.split(/[,，、]/).map((tag) => tag.trim()).filter(Boolean);

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];

export function bytesIn(count, language) {
  const power = count < 1000 ? 0 : Math.min(Math.floor(Math.log10(count) / 3), UNITS.length - 1);
  const digits = power < 2 ? 0 : 1;
  return inUnit(count / 1000 ** power, UNITS[power], language, digits, power ? "short" : "long");
}

function inUnit(count, unit, language, digits, unitDisplay = "short") {
  const options = { style: "unit", unit, unitDisplay, maximumFractionDigits: digits };
  return new Intl.NumberFormat(language, options).format(count);
}

const GOLDEN_ANGLE = 137.508; // degrees; its multiples are spread evenly
const MAX_COLOURS = 24; // more cannot be told apart

// The hues of all portraits in degrees, by the voices' ids. Each voice starts at a hue derived from its id and is moved
// until it differs enough from all older ones, so a new voice changes no other's colour.
// known: hues given before. They do not change, even when an older voice is deleted.
export function hues(voices, known = new Map()) {
  const given = new Map(known);
  const fresh = voices.filter(({ id }) => !known.has(id));
  const oldest = fresh.sort((one, other) => one.made.localeCompare(other.made) || one.id.localeCompare(other.id));
  for (const { id } of oldest) {
    const apart = given.size < MAX_COLOURS ? 180 / (given.size + 1) : 0; // there is always room for that
    const near = (hue) => apart > 0 && [...given.values()].some((other) => Math.abs(((hue - other + 540) % 360) - 180) < apart);
    let hue = ((parseInt(id.slice(27, 30) || "0", 16) % 256) / 256) * 360;
    while (near(hue)) hue = (hue + GOLDEN_ANGLE) % 360;
    given.set(id, hue);
  }
  return given;
}

// Adds a deletion to `known`, which maps each voice deleted while picked to its replacement. All are ids.
export function withReplacement(known, deleted, replacement) {
  const still = [...known].map(([id, voice]) => [id, voice === deleted ? replacement : voice]);
  return new Map([...still, [deleted, replacement]]);
}
