// One take of the list: markup, made once, and what it says. Needs format.js, words.js.

const ICONS = {
  play: ["M8 5.5v13l11-6.5z", "M7 5h3.5v14H7zM13.5 5H17v14h-3.5z"],
  star: ["M12 3.6l2.6 5.3 5.8.8-4.2 4.1 1 5.8-5.2-2.7-5.2 2.7 1-5.8-4.2-4.1 5.8-.8z"],
  more: ["M5 10.4a1.6 1.6 0 1 0 0 3.2 1.6 1.6 0 0 0 0-3.2zM12 10.4a1.6 1.6 0 1 0 0 3.2 1.6 1.6 0 0 0 0-3.2zM19 10.4a1.6 1.6 0 1 0 0 3.2 1.6 1.6 0 0 0 0-3.2z"],
};
const TAKE_FORMATS = ["wav", "flac", "mp3", "opus"];
const SURE_FOR = 4000; // ms that the question about deleting stands
const IN_LABEL = 60; // characters

function made(tag, props = {}, ...children) {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
}

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  ICONS[name].forEach((d, i) => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", d);
    if (name === "play") path.setAttribute("class", i ? "rp-icon-pause" : "rp-icon-play");
    svg.append(path);
  });
  return svg;
}

class TakeRow {
  // act(what, id, detail): "play", "star", "same", "another", "compare", "save", "delete", "seed".
  constructor(id, act) {
    Object.assign(this, { id, act, asked: null });
    const on = (what) => () => act(what, id, this.take);
    const button = (className, what, ...inside) =>
      made("button", { type: "button", className, onclick: on(what) }, ...inside);
    this.play = button("rp-take-play", "play", icon("play"));
    this.star = button("rp-take-star", "star", icon("star"));
    this.star.title = words("takes.star_hint");
    this.text = made("p", { className: "rp-take-text" });
    this.facts = made("span");
    this.seed = button("rp-take-seed", "seed");
    this.seed.title = words("takes.seed_hint");
    this.compare = button("", "compare", words("takes.compare"));
    this.erase = made("button", { type: "button", className: "rp-take-delete", onclick: () => this.askOrDelete() });
    this.node = made("li", { className: "rp-take" }, this.head(), this.more(button));
    this.calm();
  }

  head() {
    const facts = made("p", { className: "rp-take-facts" }, this.facts, this.seed);
    return made("div", { className: "rp-take-head" }, this.play, made("div", {}, this.text, facts), this.star);
  }

  more(button) {
    this.summary = made("summary", { title: words("takes.more_hint") }, icon("more"));
    const another = button("rp-again", "another", words("takes.another"));
    const same = button("rp-again", "same", words("takes.same"));
    const actions = made("div", { className: "rp-take-actions" }, another, same, this.compare, this.saves(), this.erase);
    this.details = made("details", { className: "rp-take-more" }, this.summary, actions);
    return this.details;
  }

  // Writing.js closes it, as every menu of the tab.
  saves() {
    const menu = made("details", { className: "rp-menu" }, made("summary", {}, words("takes.download")));
    const save = (format) => {
      menu.open = false;
      this.act("save", this.id, format);
    };
    const buttons = TAKE_FORMATS.map((format) =>
      made("button", {
        type: "button",
        textContent: format === "opus" ? "Opus" : format.toUpperCase(),
        ariaLabel: words("takes.save", { format: format.toUpperCase() }),
        onclick: () => save(format),
      }),
    );
    menu.append(made("div", { className: "rp-menu-list" }, ...buttons));
    return menu;
  }

  // ---- deleting takes two presses

  askOrDelete() {
    if (this.asked) {
      this.calm();
      this.act("delete", this.id);
      return;
    }
    this.erase.textContent = words("takes.delete_sure");
    this.asked = setTimeout(() => this.calm(), SURE_FOR);
  }

  calm() {
    clearTimeout(this.asked);
    this.asked = null;
    this.erase.textContent = words("takes.delete");
  }

  // ---- what it says

  show(take, { playing, compared }) {
    this.take = take;
    const text = take.text.length > IN_LABEL ? `${take.text.slice(0, IN_LABEL)}…` : take.text;
    this.text.textContent = take.text;
    const language = document.documentElement.lang || "en";
    this.facts.textContent = `${factsOf(take, language).join(" · ")} · `;
    this.facts.title = paceOf(take, language);
    this.seed.textContent = words("takes.seed", { seed: take.seed });
    this.play.dataset.sounding = playing;
    this.play.ariaLabel = words(playing ? "takes.pause" : "takes.play", { text });
    this.star.ariaLabel = words("takes.star", { text });
    this.star.ariaPressed = take.starred;
    this.summary.ariaLabel = words("takes.more", { text });
    this.compare.ariaPressed = compared;
  }
}

// take: as the server says, and `ms` from the click to the first sound.
function factsOf({ voice, seconds, ms, first, reason, listed }, language) {
  const waited = ms ?? (first === null ? null : Math.round(first * 1000));
  const facts = [voice, secondsOf(seconds, language)];
  if (waited !== null) facts.push(words("takes.sound", { ms: waited }));
  if (reason !== "end") facts.push(words("takes.cut"));
  if (!listed) facts.push(words("takes.here_only"));
  return facts;
}

// For whoever wants to know it; takes that the engine did not finish have none.
function paceOf({ factor }, language) {
  const hundredths = new Intl.NumberFormat(language, { maximumFractionDigits: 2 });
  return factor ? words("takes.factor", { factor: hundredths.format(factor) }) : "";
}
