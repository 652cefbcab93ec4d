// The less frequent actions on a card, with its takes. They are built when they are unfolded.

import { show } from "../fields.js";
import { button, create, once } from "../../ui/elements.js";
import { lengthOf } from "../../ui/format.js";
import { drawing } from "../../ui/icons.js";
import { deleteWithUndo } from "../../ui/undo.js";
import { pageLanguage, words } from "../../ui/words.js";

export class CardFold {
  // view: the CardView.
  constructor(view) {
    Object.assign(this, { view, parts: {} });
    this.node = create("div", { class: "rp-script-card-fold", hidden: true });
  }

  get card() {
    return this.view.card;
  }

  get open() {
    return !this.node.hidden;
  }

  toggle() {
    this.node.hidden = this.open;
    this.view.label();
    if (!this.open) return this.node.replaceChildren();
    this.build();
    this.fill();
    this.view.editor.listTakes(this);
    return undefined;
  }

  build() {
    const { parts, view } = this;
    const { editor } = view;
    const tool = (key, act) => button({ text: words(key), onclick: once(act) });
    parts.pause = create("input", {
      type: "number", min: "0", max: "60", step: "0.1", class: "rp-script-card-pause",
      onchange: () => view.enter(parts.pause, "pause", { seconds: parts.pause.valueAsNumber || 0 }),
    });
    parts.from = tool("script.from_here", () => editor.speak(this.card));
    parts.insert = tool("script.insert", () => editor.insert(this.card));
    parts.split = tool("script.split", () => view.text.split());
    parts.merge = tool("script.merge", () => editor.act("merge", this.card));
    parts.remove = tool("takes.delete", () => deleteWithUndo(view.node, () => editor.act("remove", this.card)));
    parts.back = tool("script.hear_back", () => editor.proof(this.card, false));
    parts.takes = create("ul", { class: "rp-script-card-takes", "aria-label": words("script.takes") });
    parts.speed = create("input", {
      type: "number", min: "0.5", max: "2", step: "0.05", class: "rp-script-card-speed",
      onchange: () => view.enter(parts.speed, "speed", { speed: parts.speed.valueAsNumber || 1 }),
    });
    parts.chapter = create("input", {
      maxlength: "200", class: "rp-script-card-title", placeholder: words("script.no_chapter"),
      onchange: () => view.enter(parts.chapter, "chapter", { name: parts.chapter.value.trim() }),
    });
    const field = (key, input) => create("label", { class: "rp-script-card-after", text: words(key) }, input);
    const fields = create("div", { class: "rp-script-card-fields" }, field("script.pause", parts.pause));
    fields.append(field("script.speed", parts.speed), field("script.chapter", parts.chapter));
    const buttons = create("div", { class: "rp-script-card-buttons" }, parts.from, parts.insert, parts.split, parts.merge, parts.back, parts.remove);
    this.node.replaceChildren(fields, buttons, parts.takes);
  }

  fill() {
    if (!this.open) return;
    const { parts, card } = this;
    show(parts.pause, String(card.pause));
    show(parts.speed, String(card.speed));
    show(parts.chapter, card.chapter ?? "");
    parts.back.disabled = !card.take;
    parts.split.disabled = parts.merge.disabled = parts.remove.disabled = card.locked;
    if (parts.takes.dataset.count !== String(card.takes) || parts.takes.dataset.chosen !== String(card.take)) {
      this.view.editor.listTakes(this);
    }
  }

  // takes: as the server lists them, newest first.
  showTakes(takes) {
    const { parts, card } = this;
    if (!this.open) return;
    Object.assign(parts.takes.dataset, { count: card.takes, chosen: card.take });
    parts.takes.replaceChildren(...takes.map((take, i) => this.takeLine(take, takes.length - i)));
  }

  takeLine(take, number) {
    const { card } = this;
    const { editor } = this.view;
    const name = words("script.take", { number, time: lengthOf(take.seconds, pageLanguage()), voice: take.voice, seed: String(take.seed) });
    const label = words("script.play_take", { number });
    const hear = { class: "rp-script-card-play", title: label, "aria-label": label, onclick: () => editor.playback.toggleTake(card, take) };
    const play = button(hear, drawing("play"));
    const remark = take.chosen ? "script.in_use" : take.fits ? "" : "script.other_words";
    const use = { text: words("script.use"), onclick: () => editor.choose(this, take) };
    const end = remark || card.locked ? create("em", { text: remark ? words(remark) : "" }) : button(use);
    return create("li", {}, play, create("span", { text: name }), end);
  }
}
