// The open script: its head, its cast, and its cards.

import { CardView, fillVoices } from "./card/card_view.js";
import { CardDrag } from "./card/card_drag.js";
import { castOf } from "./cards.js";
import { ChapterChoice } from "./chapter_choice.js";
import { isEdited, show } from "./fields.js";
import { SaveMenu } from "./save_menu.js";
import { Batches } from "../connection/batches.js";
import { create } from "../ui/elements.js";
import { lengthOf } from "../ui/format.js";
import { isDeleted } from "../ui/undo.js";
import { pageLanguage, words } from "../ui/words.js";

const NEAR = "800px"; // cards this near to the viewport get their controls
const HEAD_FIELDS = ["name", "author", "apart", "pace"];

export class ScriptView {
  constructor(root, editor) {
    Object.assign(this, { root, editor, views: new Map(), voices: [], sounding: null });
    const find = (name) => root.querySelector(`.rp-script-${name}`);
    for (const name of ["name", "author", "speak", "hear", "stop", "proof", "along", "progress", "status", "cast", "roles", "apart", "pace", "open"]) {
      this[name] = find(name);
    }
    this.chapters = new ChapterChoice(find("chapters"), (ids) => editor.removeChapters(ids));
    this.saving = new SaveMenu(find("saving"), editor);
    this.list = root.querySelector(".rp-script-cards");
    this.speakers = root.querySelector("#rp-script-speakers");
    this.watcher = new IntersectionObserver((seen) => this.buildControls(seen), { rootMargin: `${NEAR} 0px` });
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.drag = new CardDrag(this.list, () => this.present, (card, position) => editor.act("move", card, { position }));
    const request = async (takes) => (await editor.ask("peaks", { takes }, { quiet: true }))?.peaks ?? null;
    this.peaks = new Batches(request, () => this.showWaves());
    document.addEventListener("reprise:coloured", () => this.views.forEach((view) => view.parts && view.fillFace()));
  }

  showWaves() {
    for (const view of this.views.values()) if (view.parts) view.showWave();
  }

  clear() {
    for (const view of this.views.values()) this.watcher.unobserve(view.node);
    this.views.clear();
    this.list.replaceChildren();
    this.cast.open = false;
  }

  // script: a ScriptCopy. news: the result of its `apply`.
  show(script, { changed, moved }) {
    for (const card of changed) if (!this.views.has(card.id)) this.add(card);
    if (moved) this.arrange(script);
    const numbers = new Map(script.order.map((id, i) => [id, i + 1]));
    const whose = moved ? script.list : changed;
    for (const card of whose) this.views.get(card.id).show(card, numbers.get(card.id));
    this.showHead(script);
    this.showCast(script);
    this.chapters.show(script.list, script.head.name);
  }

  // The nodes of the cards, without deleted ones.
  get present() {
    return [...this.list.children].filter((node) => !isDeleted(node));
  }

  // Saves what is being typed.
  writeFocused() {
    const field = document.activeElement;
    const view = field?.closest(".rp-script-card")?.view;
    view?.text?.write();
    if (this.root.contains(field) && field !== view?.text?.field && isEdited(field)) field.dispatchEvent(new Event("change"));
  }

  // The texts that the server has not stored, { text, stored } by the card's id. stored: the server's text.
  get edits() {
    const edited = [...this.views.values()].filter((view) => view.text?.edited);
    return Object.fromEntries(edited.map(({ card, text }) => [card.id, { text: text.field.value, stored: card.text }]));
  }

  // The same for the fields of the head, by the field's name.
  get headEdits() {
    const edited = HEAD_FIELDS.filter((name) => isEdited(this[name]));
    return Object.fromEntries(edited.map((name) => [name, { text: this[name].value, stored: this[name].shown }]));
  }

  // Enters values of `headEdits` again, unless the server's have changed since.
  enterAgain(edits) {
    for (const name of HEAD_FIELDS) {
      const { text, stored } = edits[name] ?? {};
      if (stored !== this[name].shown) continue;
      this[name].value = text;
      this[name].dispatchEvent(new Event("change"));
    }
  }

  isDeleted(id) {
    return isDeleted(this.views.get(id).node);
  }

  add(card) {
    const view = new CardView(card, this.editor);
    this.views.set(card.id, view);
    this.watcher.observe(view.node);
  }

  arrange({ order }) {
    const focus = document.activeElement;
    const kept = new Set(order);
    for (const [id, view] of this.views) {
      if (kept.has(id)) continue;
      this.watcher.unobserve(view.node);
      view.node.remove();
      this.views.delete(id);
    }
    let at = this.list.firstChild;
    for (const id of order) {
      const { node } = this.views.get(id);
      if (node === at) at = at.nextSibling;
      else this.list.insertBefore(node, at);
    }
    if (this.list.contains(focus) && document.activeElement !== focus) focus.focus({ preventScroll: true });
  }

  buildControls(seen) {
    for (const { isIntersecting, target } of seen) {
      if (!isIntersecting) continue;
      target.view.buildControls(this.voices);
      target.view.sound(target.view.card.sound !== null && target.view.card.sound === this.sounding);
      this.watcher.unobserve(target);
    }
  }

  offer(voices, script) {
    if (JSON.stringify(voices) === JSON.stringify(this.voices)) return;
    this.voices = voices;
    for (const view of this.views.values()) view.offer(voices);
    if (script.head) this.showCast(script);
  }

  // ---- head and cast

  showHead({ head, list }) {
    const language = pageLanguage();
    const { running, waiting, done, cards, spoken, wait, trouble, proof, differing } = head;
    show(this.name, head.name);
    this.open.setAttribute("aria-label", head.name);
    show(this.author, head.author);
    this.saving.showCover();
    show(this.apart, String(head.paragraph_pause));
    const speeds = new Set(list.map(({ speed }) => speed));
    show(this.pace, speeds.size === 1 ? String([...speeds][0]) : ""); // empty if they differ
    const { speak, hear, stop } = this;
    const held = document.activeElement;
    speak.textContent = words(done || waiting ? "script.speak_rest" : "script.speak_all");
    speak.hidden = running || (done === cards && !waiting);
    hear.hidden = running || !done;
    stop.hidden = !running && !waiting && !proof;
    this.proof.hidden = running || !done || Boolean(proof);
    if (held.hidden) [stop, speak, hear].find((each) => !each.hidden)?.focus(); // its place is taken by another button
    this.progress.hidden = !running && done === cards; // the text below says so
    this.progress.max = cards || 1;
    this.progress.value = done;
    const parts = [words("script.done", { done, cards, time: lengthOf(spoken, language) })];
    if (running && wait !== null && done < cards) parts.push(words("script.left", { time: lengthOf(Math.ceil(wait), language, 0) }));
    if (!running && waiting) parts.push(words("script.still_waiting", { count: waiting }));
    if (proof) parts.push(words("script.proofing", { number: Math.min(proof.done + 1, proof.cards), cards: proof.cards }));
    else if (differing) parts.push(words("script.differing", { count: differing }));
    if (proof?.attempt) parts.push(words("script.repairing", { attempt: proof.attempt }));
    if (trouble) parts.push(trouble);
    this.status.setAttribute("aria-live", running || proof ? "off" : "polite"); // screen readers read the outcome only
    if (this.status.textContent !== parts.join(" · ")) this.status.textContent = parts.join(" · ");
    this.root.toggleAttribute("data-running", running);
  }

  showCast({ list }) {
    const cast = castOf(list);
    const current = JSON.stringify([cast, this.voices]);
    if (current === this.renderedCast) return;
    this.renderedCast = current;
    const names = cast.map(({ speaker }) => speaker).filter((name) => name !== null);
    this.speakers.replaceChildren(...names.map((value) => create("option", { value })));
    const focus = this.roles.contains(document.activeElement) ? document.activeElement.dataset.speaker : null;
    this.roles.replaceChildren(...cast.map((role) => this.roleLine(role)));
    if (focus !== null) [...this.roles.querySelectorAll("select")].find((each) => each.dataset.speaker === focus)?.focus();
  }

  roleLine({ speaker, cards, voices }) {
    const name = speaker ?? words("script.narrator");
    const select = create("select", { "aria-label": words("script.role", { name }), "data-speaker": speaker ?? "" });
    fillVoices(select, this.voices, voices);
    select.addEventListener("change", () => this.editor.cast(speaker, select.value));
    const count = create("td", { text: words("script.cards", { count: cards }) });
    return create("tr", {}, create("th", { scope: "row", text: name }), count, create("td", {}, select));
  }

  // ---- playback and focus

  sounds(sound) {
    this.sounding = sound;
    for (const view of this.views.values()) {
      const on = sound !== null && view.card.sound === sound;
      if (on !== view.sounding) view.sound(on);
    }
  }

  bringUp(id) {
    this.views.get(id)?.node.scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
  }

  // Focuses the script, whose heading may be above the window if the list before it was scrolled.
  focus() {
    this.open.focus({ preventScroll: true });
    if (this.open.getBoundingClientRect().top < 0) this.open.scrollIntoView();
  }

  // Focuses a card's text.
  write(id) {
    const view = this.views.get(id);
    if (!view) return;
    view.buildControls(this.voices);
    view.node.scrollIntoView({ block: "nearest" });
    view.text.field.focus();
    view.text.field.select();
  }

  // Alt with the arrow keys moves the focused card.
  key(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const card = event.target.closest(".rp-script-card");
    if (!step || !event.altKey || !card || event.target.tagName === "SELECT") return;
    event.preventDefault();
    this.editor.move(card.view.card, step);
  }
}

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
