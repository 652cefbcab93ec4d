// One entry of the history: its elements, created once, and the actions of its buttons.

import { detailsOf, factsOf, firstWords } from "./facts.js";
import { marks } from "../connection/marks.js";
import { button, create } from "../ui/elements.js";
import { SOUND_FORMATS } from "../sound/formats.js";
import { drawing, playAndPause } from "../ui/icons.js";
import { atLoudness, loudnessChoice } from "../sound/loudness.js";
import { deleteWithUndo } from "../ui/undo.js";
import { pageLanguage, words } from "../ui/words.js";

export class EntryRow {
  // act(event, data): "star", "withdraw", "again", "refresh".
  constructor(entry, act) {
    Object.assign(this, { entry, act });
    const language = pageLanguage();
    this.node = create("li", { class: "rp-entry" });
    this.play = button({ class: "rp-entry-play rp-toggle", onclick: () => this.toggle() }, ...playAndPause());
    this.text = create("p", { class: "rp-entry-text", id: `rp-entry-${entry.id}`, text: entry.text });
    this.facts = create("p", { class: "rp-entry-facts", text: factsOf(entry, language) });
    this.details = create("p", { class: "rp-entry-facts", text: detailsOf(entry, language), hidden: true });
    this.open = button({ class: "rp-entry-open", onclick: () => this.unfold(this.details.hidden) });
    this.star = button({ class: "rp-entry-star", onclick: () => this.setStar() }, drawing("star"));
    this.again = button({ class: "rp-entry-again", text: words("history.again"), onclick: () => act("again", { id: entry.id }) });
    this.files = this.downloads();
    this.gone = button({ class: "rp-entry-delete", text: words("takes.delete"), onclick: () => this.remove() });
    const actions = create("div", { class: "rp-entry-actions" }, this.again, this.open, this.files, this.gone);
    this.node.append(
      this.play,
      create("div", { class: "rp-entry-body" }, this.text, this.facts, this.details, actions),
      this.star,
    );
    this.name();
    this.unfold(false);
    this.update(entry);
  }

  downloads() {
    this.links = Object.entries(SOUND_FORMATS).map(([kind, text]) => create("a", { "data-kind": kind, text }));
    return create(
      "details", { class: "rp-menu" },
      create("summary", { text: words("history.download") }),
      create("div", { class: "rp-menu-list" }, loudnessChoice(() => this.update(this.entry)), ...this.links),
    );
  }

  // Button texts repeat in every row, so each button is described by its entry.
  name() {
    const about = firstWords(this.entry.text);
    for (const node of [this.again, this.open, this.gone]) node.setAttribute("aria-describedby", this.text.id);
    this.files.querySelector("summary").setAttribute("aria-describedby", this.text.id);
    this.play.dataset.about = about;
    this.star.setAttribute("aria-label", `${words("history.star")}: ${about}`);
  }

  update(entry) {
    this.entry = { ...entry, starred: marks.of(entry.id, entry.starred) };
    this.star.setAttribute("aria-pressed", String(this.entry.starred));
    for (const link of this.links) {
      link.href = atLoudness(entry.links[link.dataset.kind]);
      link.download = "";
    }
    this.sound(window.reprisePlayer?.playing === entry.id);
  }

  sound(sounding) {
    this.node.toggleAttribute("data-sounding", sounding);
    this.play.dataset.sounding = sounding;
    this.play.setAttribute("aria-label", `${words(sounding ? "history.pause" : "history.play")}: ${this.play.dataset.about}`);
  }

  async toggle() {
    const played = await window.reprisePlayer.toggle(this.entry.id, this.entry.links.wav, this.entry.facts);
    if (!played) this.act("refresh", {}); // the link has expired, or the take is gone
  }

  setStar() {
    const { id } = this.entry;
    const starred = !this.entry.starred;
    marks.set(id, starred, () => this.act("star", { id, starred }));
    this.update(this.entry);
  }

  remove() {
    window.reprisePlayer?.forget(this.entry.id);
    deleteWithUndo(this.node, () => this.act("withdraw", { id: this.entry.id }));
  }

  // Shows or hides the whole text and the settings that it was spoken with.
  unfold(open) {
    this.node.toggleAttribute("data-open", open);
    this.details.hidden = !open;
    this.open.setAttribute("aria-expanded", String(open));
    this.open.textContent = words(open ? "history.fold" : "history.unfold");
  }
}
