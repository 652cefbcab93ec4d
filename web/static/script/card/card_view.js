// One card of a script. Far from the viewport it is only its text, since a long script has thousands of cards.

import { CardFold } from "./card_fold.js";
import { CardText } from "./card_text.js";
import { isComing } from "../cards.js";
import { sent, show } from "../fields.js";
import { button, create, svgElement } from "../../ui/elements.js";
import { lengthOf } from "../../ui/format.js";
import { heardLines } from "../../sound/heard.js";
import { drawing, playAndPause } from "../../ui/icons.js";
import { portraitOf, showPortrait, voiceOf } from "../../library/portraits.js";
import { pageLanguage, words } from "../../ui/words.js";

const CARD_STATES = {
  new: "script.unspoken",
  queued: "script.waiting",
  speaking: "script.speaking",
  spoken: "script.spoken",
  failed: "script.failed",
};
// Faults of a take, by the reason why it ended.
const FAULTS = { length: "script.cut", short: "script.short" };

export class CardView {
  // editor: the ScriptEditor, which performs the actions.
  constructor(card, editor) {
    Object.assign(this, { card, editor, number: 0, sounding: false });
    Object.assign(this, { parts: null, text: null, fold: null }); // the controls
    this.node = create("li", { class: "rp-script-card", tabindex: "-1" }, create("p", { class: "rp-script-card-plain" }));
    this.node.view = this;
    this.show(card, 0);
  }

  show(card, number) {
    Object.assign(this, { card, number });
    this.node.dataset.state = card.state;
    this.node.toggleAttribute("data-locked", card.locked);
    this.node.setAttribute("aria-label", words("script.card", { number }));
    if (this.parts) this.fill();
    else this.node.firstChild.textContent = card.text;
  }

  // ---- with all controls

  buildControls(voices) {
    if (this.parts) return;
    const { editor } = this;
    const act = (what, values) => editor.act(what, this.card, values);
    const parts = (this.parts = {});
    const text = (this.text = new CardText(this));
    const fold = (this.fold = new CardFold(this));
    const tool = (name, onclick, ...shown) =>
      (parts[name] = button({ class: `rp-script-card-${name}`, onclick }, ...(shown.length ? shown : [drawing(name)])));
    parts.number = create("span", { class: "rp-script-card-number", "aria-hidden": "true" });
    parts.grip = create("span", { class: "rp-script-card-grip", draggable: "true", "aria-hidden": "true", title: words("script.drag") });
    parts.grip.append(drawing("grip"));
    parts.grip.ondragstart = (event) => editor.view.drag.begin(event, this);
    parts.face = create("span", { class: "rp-script-card-face" }, portraitOf({}));
    parts.wave = create("span", { class: "rp-script-card-wave", "aria-hidden": "true" });
    parts.speaker = create("input", {
      class: "rp-script-card-speaker", list: "rp-script-speakers", maxlength: "80", placeholder: words("script.narrator"),
      onchange: () => this.enter(parts.speaker, "speaker", { speaker: parts.speaker.value.trim() }),
    });
    parts.voice = create("select", {
      class: "rp-script-card-voice", onchange: () => this.enter(parts.voice, "voice", { voice: parts.voice.value }),
    });
    parts.heading = create("h2", { class: "rp-script-card-heading", hidden: true });
    parts.state = create("span", { class: "rp-script-card-state" });
    // Opens the dictionary at the word selected in the text (shell/dictionary.js). Pressing it leaves the focus in the text.
    parts.say = button({ class: "rp-script-card-say", "data-rp-dictionary": "" });
    parts.say.append(drawing("book"), create("span", { class: "rp-dictionary-name" }));
    parts.trouble = create("p", { class: "rp-script-card-trouble" });
    parts.heard = create("div", { class: "rp-script-card-heard rp-heard" });
    parts.length = create("span", { class: "rp-script-card-length" });
    tool("play", () => editor.playback.toggle(this.card), ...playAndPause(), parts.length).classList.add("rp-toggle");
    tool("redo", () => isComing(this.card) || act("redo"));
    tool("lock", () => act("lock", { locked: !this.card.locked }), drawing("lock"), drawing("unlock"));
    tool("up", () => editor.move(this.card, -1));
    tool("down", () => editor.move(this.card, 1));
    tool("more", () => fold.toggle());
    const tools = create("span", { class: "rp-script-card-tools" }, parts.redo, parts.lock, parts.up, parts.down, parts.more);
    this.node.replaceChildren(
      create("div", { class: "rp-script-card-margin" }, parts.grip, parts.number, parts.face),
      create("div", { class: "rp-script-card-head" }, parts.heading, parts.speaker, parts.voice, parts.state),
      text.field,
      parts.say,
      parts.wave,
      parts.trouble,
      parts.heard,
      text.replaced,
      create("div", { class: "rp-script-card-foot" }, parts.play, tools),
      fold.node,
    );
    this.offer(voices);
    this.fill();
  }

  offer(voices) {
    if (!this.parts) return;
    this.voices = voices;
    fillVoices(this.parts.voice, voices, [this.card.voice]);
  }

  fill() {
    const { card, number, parts, text } = this;
    const { locked, take, state } = card;
    parts.number.textContent = number;
    this.fillFace();
    this.showWave();
    parts.heading.textContent = card.chapter ?? "";
    parts.heading.hidden = !card.chapter;
    show(parts.speaker, card.speaker ?? "");
    text.fill();
    if (parts.voice.value !== (card.voice ?? "")) fillVoices(parts.voice, this.voices, [card.voice]);
    parts.state.textContent = words(CARD_STATES[state]) + (card.speed === 1 ? "" : ` · ${words("player.times", { speed: card.speed })}`);
    parts.trouble.textContent = state === "failed" ? card.failure : take && card.ending in FAULTS ? words(FAULTS[card.ending]) : "";
    this.showHeard();
    parts.length.textContent = take ? lengthOf(card.seconds, pageLanguage()) : "";
    parts.play.disabled = !take;
    parts.redo.disabled = locked;
    parts.redo.setAttribute("aria-disabled", isComing(card)); // a disabled button would lose the focus
    parts.lock.setAttribute("aria-pressed", locked);
    text.field.readOnly = parts.speaker.readOnly = locked;
    parts.voice.disabled = locked;
    this.label();
    this.fold.fill();
  }

  // Shows the portrait of the voice.
  fillFace() {
    const { card, parts } = this;
    showPortrait(parts.face.firstChild, voiceOf({ id: card.voice ?? "" }) ?? {});
  }

  // Shows the waveform of the card's take. It is requested once, and its width grows with the length of the take.
  showWave() {
    const { card, parts, editor } = this;
    const peaks = editor.view.peaks.of(card.take);
    const current = peaks ? card.take : null;
    if (current === this.renderedWaveform) return;
    this.renderedWaveform = current;
    parts.wave.replaceChildren(...(peaks ? [waveOf(peaks)] : []));
    parts.wave.style.width = peaks ? `${Math.min(100, 8 + card.seconds * 6)}%` : "";
  }

  // Shows the result of checking the take: wrong words are marked, and a button has them spoken again.
  showHeard() {
    const { card, parts, editor } = this;
    const current = JSON.stringify([card.heard, card.locked]);
    if (current === this.renderedProof) return;
    this.renderedProof = current;
    const status = card.heard?.under_way ? words("script.hearing") : "";
    if (parts.heard.contains(document.activeElement)) this.node.focus(); // its button goes
    parts.heard.replaceChildren(...heardLines(card.heard, status, card.locked ? null : () => editor.proof(this.card)));
  }

  label() {
    const { number, parts, card } = this;
    const call = (part, key) => {
      const text = words(key, { number });
      part.setAttribute("aria-label", text);
      if (part.type === "button") part.title = text;
    };
    call(this.text.field, "script.text_of");
    call(parts.speaker, "script.speaker_of");
    call(parts.voice, "script.voice_of");
    call(parts.play, this.sounding ? "script.hush" : "script.play");
    call(parts.redo, card.take ? "script.redo" : "script.speak_one");
    call(parts.lock, card.locked ? "script.unlock" : "script.lock");
    call(parts.up, "script.up");
    call(parts.down, "script.down");
    call(parts.more, "script.more");
    parts.more.setAttribute("aria-expanded", this.fold.open);
  }

  sound(on) {
    this.sounding = on;
    this.node.toggleAttribute("data-sounding", on);
    if (!this.parts) return;
    this.parts.play.dataset.sounding = on;
    this.label();
  }

  // Performs an action with the value of a field.
  enter(field, what, values) {
    sent(field, this.editor.act(what, this.card, values), () => this.fill());
  }
}

// peaks: 0 to 100.
function waveOf(peaks) {
  const loudest = Math.max(1, ...peaks);
  const strokes = peaks.map((peak, i) => {
    const half = 1 + 9 * Math.sqrt(peak / loudest);
    return `M${i + 0.5} ${(10 - half).toFixed(1)}v${(2 * half).toFixed(1)}`;
  });
  const svg = svgElement("svg");
  const path = svgElement("path");
  svg.setAttribute("viewBox", `0 0 ${peaks.length} 20`);
  svg.setAttribute("preserveAspectRatio", "none");
  path.setAttribute("d", strokes.join(""));
  svg.append(path);
  return svg;
}

// voices: { id, name }. chosen: ids of the voices in use; a deleted one is shown as such.
export function fillVoices(select, voices, chosen) {
  const several = chosen.length > 1;
  const [voice] = chosen;
  const known = voices.some(({ id }) => id === voice);
  const options = voices.map(({ id, name }) => create("option", { value: id, text: name }));
  if (several || !known) {
    const says = several ? "script.several" : voice ? "script.voice_gone" : "script.no_voice";
    options.unshift(create("option", { value: several ? "" : (voice ?? ""), text: words(says), disabled: true }));
  }
  select.replaceChildren(...options);
  select.value = several ? "" : (voice ?? "");
}
