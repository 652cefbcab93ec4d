// What an entry of the history says, and its markup. Needs words.js, format.js.

const FORMATS = { wav: "WAV", flac: "FLAC", mp3: "MP3", opus: "Opus" };

const joined = (facts) => facts.filter(Boolean).join(" · ");

// What one wants to know of an entry at a glance; `language` as browsers call it.
function factsOf(entry, language) {
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
function detailsOf(entry, language) {
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
function emptiness({ found, kept }) {
  if (!found) return words("history.no_match");
  return words(kept ? "history.none" : "history.none_kept");
}

// What names an entry to those who do not see it.
const firstWords = (text) => (text.length > 60 ? `${text.slice(0, 60).trimEnd()}…` : text);

function made(tag, classes, props = {}) {
  const node = Object.assign(document.createElement(tag), props);
  node.className = classes;
  return node;
}

function iconButton(classes, path) {
  const button = made("button", classes, { type: "button" });
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
  shape.setAttribute("d", path);
  svg.append(shape);
  button.append(svg);
  return button;
}

const PLAY_SHAPE = "M8 5.5v13l11-6.5z";
const PAUSE_SHAPE = "M7 5h3.5v14H7zM13.5 5H17v14h-3.5z";
const STAR_SHAPE = "M12 3.6l2.6 5.3 5.8.8-4.2 4.1 1 5.8-5.2-2.7-5.2 2.7 1-5.8L3.6 9.7l5.8-.8z";
