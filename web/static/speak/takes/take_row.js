// One take of the list: its elements, created once, and their texts.

import { button, create } from "../../ui/elements.js";
import { joined, lengthOf, stallsOf } from "../../ui/format.js";
import { SOUND_FORMATS } from "../../sound/formats.js";
import { heardLines } from "../../sound/heard.js";
import { drawing, playAndPause } from "../../ui/icons.js";
import { closeMenu } from "../../ui/menus.js";
import { pageLanguage, words } from "../../ui/words.js";

const IN_LABEL = 60; // characters

export class TakeRow {
  // act(what, id, detail): "play", "star", "same", "another", "compare", "check", "repair", "save", "link", "delete", "seed".
  constructor(id, act) {
    Object.assign(this, { id, act });
    const on = (what) => () => act(what, id, this.take);
    const tool = (name, what, ...inside) => button({ class: name, onclick: on(what) }, ...inside);
    this.play = tool("rp-take-play rp-toggle", "play", ...playAndPause());
    this.star = tool("rp-take-star", "star", drawing("star"));
    this.star.title = words("takes.star_hint");
    this.text = create("p", { class: "rp-take-text" });
    this.facts = create("span");
    this.seed = tool("rp-take-seed", "seed");
    this.seed.title = words("takes.seed_hint");
    this.compare = tool(undefined, "compare", words("takes.compare"));
    this.erase = tool("rp-take-delete", "delete", words("takes.delete"));
    this.check = tool(undefined, "check", words("script.hear_back"));
    this.heard = create("div", { class: "rp-heard", role: "status" });
    this.node = create("li", { class: "rp-take" }, this.head(), this.heard, this.more(tool));
  }

  head() {
    const facts = create("p", { class: "rp-take-facts" }, this.facts, this.seed);
    return create("div", { class: "rp-take-head" }, this.play, create("div", {}, this.text, facts), this.star);
  }

  more(tool) {
    this.summary = create("summary", { title: words("takes.more_hint") }, drawing("more"));
    const another = tool("rp-again", "another", words("takes.another"));
    this.same = tool("rp-again", "same", words("takes.same"));
    const link = tool(undefined, "link", words("links.copy"));
    const actions = create("div", { class: "rp-take-actions" }, another, this.same, this.compare, this.check, this.saves(), link, this.erase);
    this.details = create("details", { class: "rp-take-more" }, this.summary, actions);
    return this.details;
  }

  saves() {
    const menu = create("details", { class: "rp-menu" }, create("summary", {}, words("takes.download")));
    const save = (format) => {
      closeMenu(menu);
      this.act("save", this.id, format);
    };
    const buttons = Object.entries(SOUND_FORMATS).map(([format, text]) =>
      button({ text, "aria-label": words("takes.save", { format: text }), onclick: () => save(format) }),
    );
    menu.append(create("div", { class: "rp-menu-list" }, ...buttons));
    return menu;
  }

  // ---- texts

  // checking: { id, attempt } of the take that is being checked or repaired; null for none.
  show(take, { playing, compared, checking }) {
    this.take = take;
    this.showHeard(checking);
    const text = take.text.length > IN_LABEL ? `${take.text.slice(0, IN_LABEL)}…` : take.text;
    this.text.textContent = take.text;
    const language = pageLanguage();
    this.facts.textContent = joined(factsOf(take, language));
    this.facts.title = paceOf(take, language);
    this.seed.textContent = words("takes.seed", { seed: String(take.seed) });
    this.play.dataset.sounding = playing;
    this.play.ariaLabel = words(playing ? "takes.pause" : "takes.play", { text });
    this.star.ariaLabel = words("takes.star", { text });
    this.star.ariaPressed = take.starred;
    this.summary.ariaLabel = words("takes.more", { text });
    this.compare.ariaPressed = compared;
    this.same.hidden = "mended" in (take.facts?.settings ?? {}); // a repaired take cannot be reproduced from one seed
  }

  showHeard(checking) {
    const { heard } = this.take;
    const { attempt = null } = checking?.id === this.id ? checking : {};
    this.check.ariaDisabled = checking !== null; // a disabled button would lose the focus
    const current = JSON.stringify([heard, attempt, checking === null]);
    if (current === this.renderedProof) return;
    this.renderedProof = current;
    const status = attempt === null ? "" : attempt ? words("script.repairing", { attempt }) : words("script.hearing");
    if (this.heard.contains(document.activeElement)) this.play.focus(); // its button goes
    this.heard.replaceChildren(...heardLines(heard, status, checking ? null : () => this.act("repair", this.id)));
  }
}

// The keys of the reasons why a take ended before the end of its text.
const REASONS = {
  short: "takes.short",
  length: "takes.cut",
  cancelled: "history.stopped",
  disconnected: "history.disconnected",
};

// take: as the server sent it.
export function factsOf({ voice, seconds, reason, listed }, language) {
  const facts = [voice, lengthOf(seconds, language)];
  if (reason in REASONS) facts.push(words(REASONS[reason]));
  if (!listed) facts.push(words("takes.here_only"));
  return facts;
}

// The pace of a take: time to the first sound, playback stalls, and the real-time factor, null if the engine did not finish
// the take. ms: from the click to the first sound. first: the server's time to the first audio, in seconds.
export function paceOf({ factor, ms, first, stalls }, language) {
  const hundredths = new Intl.NumberFormat(language, { maximumFractionDigits: 2 });
  const waited = ms ?? (first === null || first === undefined ? null : Math.round(first * 1000));
  const facts = [
    waited === null ? "" : words("takes.sound", { ms: waited }),
    stallsOf(stalls, language),
    factor ? words("takes.factor", { factor: hundredths.format(factor) }) : "",
  ];
  return joined(facts);
}
