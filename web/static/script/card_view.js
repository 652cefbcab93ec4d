// One card of a script. Far from the viewport it is only its text, since a long script has thousands of cards.

import { isComing, trimmedPlace } from "./cards.js";
import { sent, show } from "./fields.js";
import { isLeaving } from "../connection/leaving.js";
import { button, create, svgElement } from "../ui/elements.js";
import { lengthOf } from "../ui/format.js";
import { heardLines } from "../sound/heard.js";
import { drawing, playAndPause } from "../ui/icons.js";
import { composes } from "../ui/keyboard.js";
import { portraitOf, showPortrait, voiceOf } from "../library/portraits.js";
import { typeInto } from "../ui/typing.js";
import { deleteWithUndo } from "../ui/undo.js";
import { pageLanguage, words } from "../ui/words.js";

const CARD_STATES = {
  new: "script.unspoken",
  queued: "script.waiting",
  speaking: "script.speaking",
  spoken: "script.spoken",
  failed: "script.failed",
};
// Faults of a take, by the reason why it ended.
const FAULTS = { length: "script.cut", short: "script.short" };
const SAVE_AFTER = 1_000; // ms after the last key
const GROWS = CSS.supports("field-sizing", "content");

export class CardView {
  // editor: the ScriptEditor, which performs the actions.
  constructor(card, editor) {
    Object.assign(this, { card, editor, number: 0, parts: null, sounding: false });
    this.texts = new Set(); // the card's texts that were shown or written here
    this.caret = 0; // its last place in the trimmed text; the field's own moves to the end when the saved text is shown
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
    parts.text = create("textarea", {
      class: "rp-script-card-text", rows: "1", maxlength: "5000",
      onfocus: () => (this.former = this.card.text), onkeydown: (event) => this.typed(event),
      oninput: () => this.changed(), onchange: () => this.write(),
      onblur: () => this.left(),
    });
    // Opens the dictionary at the word selected in the text (shell/dictionary.js). Pressing it leaves the focus in the text.
    parts.say = button({ class: "rp-script-card-say", "data-rp-dictionary": "" });
    parts.say.append(drawing("book"), create("span", { class: "rp-dictionary-name" }));
    parts.trouble = create("p", { class: "rp-script-card-trouble" });
    parts.heard = create("div", { class: "rp-script-card-heard rp-heard" });
    parts.replaced = create("div", { class: "rp-script-card-replaced rp-heard", role: "status" });
    parts.length = create("span", { class: "rp-script-card-length" });
    tool("play", () => editor.playback.toggle(this.card), ...playAndPause(), parts.length).classList.add("rp-toggle");
    tool("redo", () => isComing(this.card) || act("redo"));
    tool("lock", () => act("lock", { locked: !this.card.locked }), drawing("lock"), drawing("unlock"));
    tool("up", () => editor.move(this.card, -1));
    tool("down", () => editor.move(this.card, 1));
    tool("more", () => this.unfold(parts.more.getAttribute("aria-expanded") !== "true"));
    parts.fold = create("div", { class: "rp-script-card-fold", hidden: true });
    const tools = create("span", { class: "rp-script-card-tools" }, parts.redo, parts.lock, parts.up, parts.down, parts.more);
    this.node.replaceChildren(
      create("div", { class: "rp-script-card-margin" }, parts.grip, parts.number, parts.face),
      create("div", { class: "rp-script-card-head" }, parts.heading, parts.speaker, parts.voice, parts.state),
      parts.text,
      parts.say,
      parts.wave,
      parts.trouble,
      parts.heard,
      parts.replaced,
      create("div", { class: "rp-script-card-foot" }, parts.play, tools),
      parts.fold,
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
    const { card, number, parts } = this;
    const { locked, take, state } = card;
    parts.number.textContent = number;
    this.fillFace();
    this.showWave();
    parts.heading.textContent = card.chapter ?? "";
    parts.heading.hidden = !card.chapter;
    show(parts.speaker, card.speaker ?? "");
    const shown = parts.text.value.trim();
    if (show(parts.text, card.text)) {
      if (card.text !== shown) this.caret = 0; // it was in another text
      this.texts.add(card.text);
      this.grow();
    }
    if (parts.voice.value !== (card.voice ?? "")) fillVoices(parts.voice, this.voices, [card.voice]);
    parts.state.textContent = words(CARD_STATES[state]) + (card.speed === 1 ? "" : ` · ${words("player.times", { speed: card.speed })}`);
    parts.trouble.textContent = state === "failed" ? card.failure : take && card.ending in FAULTS ? words(FAULTS[card.ending]) : "";
    this.showHeard();
    parts.length.textContent = take ? lengthOf(card.seconds, pageLanguage()) : "";
    parts.play.disabled = !take;
    parts.redo.disabled = locked;
    parts.redo.setAttribute("aria-disabled", isComing(card)); // a disabled button would lose the focus
    parts.lock.setAttribute("aria-pressed", locked);
    parts.text.readOnly = parts.speaker.readOnly = locked;
    parts.voice.disabled = locked;
    this.label();
    if (!parts.fold.hidden) this.fillFold();
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
    call(parts.text, "script.text_of");
    call(parts.speaker, "script.speaker_of");
    call(parts.voice, "script.voice_of");
    call(parts.play, this.sounding ? "script.hush" : "script.play");
    call(parts.redo, card.take ? "script.redo" : "script.speak_one");
    call(parts.lock, card.locked ? "script.unlock" : "script.lock");
    call(parts.up, "script.up");
    call(parts.down, "script.down");
    call(parts.more, "script.more");
    parts.more.setAttribute("aria-expanded", !parts.fold.hidden);
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

  // ---- its text

  typed(event) {
    if (composes(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      this.node.focus(); // which saves it
    } else if (event.key === "Escape" && event.target.value !== this.former) {
      event.stopPropagation();
      event.target.value = this.former;
      this.grow();
      this.write();
    }
  }

  // Saves the text while it is typed, so that a reload loses nothing. An empty text is sent, and refused, only on leaving the field.
  changed() {
    this.grow();
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.parts.text.value.trim() && this.write(), SAVE_AFTER);
  }

  // Whether the server has not stored the text that the field shows.
  get edited() {
    const text = this.parts?.text.value ?? "";
    return text.trim() !== "" && text !== this.card.text;
  }

  write() {
    clearTimeout(this.saving);
    const text = this.parts.text.value;
    // `asked`: the text of the last request, until it is answered. When the page unloads it may not have been sent yet.
    if (text === (isLeaving() ? this.card.text : (this.asked ?? this.card.text))) return;
    this.asked = text;
    this.texts.add(text.trim());
    const answer = this.editor.act("edit", this.card, { text }).then((done) => {
      if (this.asked === text) this.asked = null;
      if (!done) return text.trim(); // words that were refused stay in the field, so that they are not lost
      this.texts.add(done.saved);
      this.showSaved();
      if (done.replaced && !this.texts.has(done.replaced)) this.offerReplaced(done.replaced);
      return done.saved === text.trim(); // otherwise SSML was removed
    });
    sent(this.parts.text, answer, () => this.showOther());
  }

  // Shows the saved text in place of another one, with the caret as far from the end.
  showOther() {
    const { text } = this.parts;
    const after = text.value.length - text.selectionEnd;
    this.fill();
    if (document.activeElement === text) text.setSelectionRange(text.value.length - after, text.value.length - after);
  }

  // Offers the text that another page had saved, which this page did not show before it replaced it.
  offerReplaced(other) {
    const { text, replaced } = this.parts;
    this.texts.add(other);
    const answer = (key, act) => {
      const done = () => {
        replaced.replaceChildren();
        text.focus();
        act?.();
      };
      return button({ class: "rp-heard-repair", text: words(key), onclick: done });
    };
    const use = () => {
      typeInto(text, other, { all: true });
      this.write();
    };
    const said = create("p", { text: words("script.replaced", { text: other }) });
    replaced.replaceChildren(said, answer("script.use_replaced", use), " ", answer("script.keep_own"));
  }

  left() {
    const { text } = this.parts;
    this.caret = trimmedPlace(text.value, text.selectionStart);
    if (!this.asked) this.showSaved();
  }

  // Once the field is left, it shows the text as it was saved: without spaces around it, also if it was saved before.
  showSaved() {
    const { text } = this.parts;
    if (document.activeElement === text || text.value.trim() !== this.card.text) return;
    text.shown = text.value; // so that it can be replaced
    this.fill();
  }

  split() {
    const { text } = this.parts;
    text.blur(); // which saves it
    this.editor.split(this.card, text.value.trim(), this.caret);
  }

  grow() {
    const { text } = this.parts;
    if (GROWS) return;
    text.style.height = "auto";
    text.style.height = `${text.scrollHeight}px`;
  }

  // ---- the fold with less frequent actions

  unfold(open) {
    this.parts.fold.hidden = !open;
    this.label();
    if (!open) return this.parts.fold.replaceChildren();
    this.buildFold();
    this.fillFold();
    this.editor.listTakes(this);
    return undefined;
  }

  buildFold() {
    const { parts, editor } = this;
    const act = (what, values) => editor.act(what, this.card, values);
    const tool = (key, onclick) => button({ text: words(key), onclick });
    parts.pause = create("input", {
      type: "number", min: "0", max: "60", step: "0.1", class: "rp-script-card-pause",
      onchange: () => this.enter(parts.pause, "pause", { seconds: parts.pause.valueAsNumber || 0 }),
    });
    parts.from = tool("script.from_here", () => editor.speak(this.card));
    parts.insert = tool("script.insert", () => editor.insert(this.card));
    parts.split = tool("script.split", () => this.split());
    parts.merge = tool("script.merge", () => act("merge"));
    parts.remove = tool("takes.delete", () => deleteWithUndo(this.node, () => act("remove")));
    parts.back = tool("script.hear_back", () => editor.proof(this.card, false));
    parts.takes = create("ul", { class: "rp-script-card-takes", "aria-label": words("script.takes") });
    parts.speed = create("input", {
      type: "number", min: "0.5", max: "2", step: "0.05", class: "rp-script-card-speed",
      onchange: () => this.enter(parts.speed, "speed", { speed: parts.speed.valueAsNumber || 1 }),
    });
    parts.chapter = create("input", {
      maxlength: "200", class: "rp-script-card-title", placeholder: words("script.no_chapter"),
      onchange: () => this.enter(parts.chapter, "chapter", { name: parts.chapter.value.trim() }),
    });
    const field = (key, input) => create("label", { class: "rp-script-card-after", text: words(key) }, input);
    const fields = create("div", { class: "rp-script-card-fields" }, field("script.pause", parts.pause));
    fields.append(field("script.speed", parts.speed), field("script.chapter", parts.chapter));
    const buttons = create("div", { class: "rp-script-card-buttons" }, parts.from, parts.insert, parts.split, parts.merge, parts.back, parts.remove);
    parts.fold.replaceChildren(fields, buttons, parts.takes);
  }

  fillFold() {
    const { parts, card } = this;
    show(parts.pause, String(card.pause));
    show(parts.speed, String(card.speed));
    show(parts.chapter, card.chapter ?? "");
    parts.back.disabled = !card.take;
    parts.split.disabled = parts.merge.disabled = parts.remove.disabled = card.locked;
    if (parts.takes.dataset.count !== String(card.takes) || parts.takes.dataset.chosen !== String(card.take)) {
      this.editor.listTakes(this);
    }
  }

  // takes: as the server lists them, newest first.
  showTakes(takes) {
    const { parts, card } = this;
    if (parts.fold.hidden) return;
    Object.assign(parts.takes.dataset, { count: card.takes, chosen: card.take });
    parts.takes.replaceChildren(...takes.map((take, i) => this.takeLine(take, takes.length - i)));
  }

  takeLine(take, number) {
    const { editor, card } = this;
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
