// The voices as cards: play, speak with, edit, duplicate, export, import, delete and restore. Its value is the answer of
// web/tabs/library/handlers.py, which also handles its events.

import { shownCard } from "./card.js";
import { DeletedVoices } from "./deleted.js";
import { ImportedFiles, wholeFiles } from "./files.js";
import { OpenForm } from "./form/open_form.js";
import { offerForm } from "./offers.js";
import { bytesIn, found, ordered, soundOf, withReplacement } from "./voices.js";
import { guardLeaving } from "../connection/leaving.js";
import { UploadLines } from "../connection/upload_lines.js";
import { Newest } from "../connection/answers/newest.js";
import { create } from "../ui/elements.js";
import { emptyState } from "../ui/empty.js";
import { composes } from "../ui/keyboard.js";
import { LongList } from "./long_list.js";
import { NextFocus } from "./next_focus.js";
import { learnColours } from "./portraits.js";
import { pageLanguage, words } from "../ui/words.js";

const FRESH = 8 * 60_000; // ms: the links in the list are valid for ten minutes
const TICK = 15_000; // ms

class Library {
  constructor({ element, props, trigger, upload, watch }) {
    Object.assign(this, { element, props, trigger });
    this.value = { at: 0, voices: [], aside: [], bytes: null, all: "" };
    this.newest = new Newest();
    this.cards = new Map(); // those that are not edited, by id: { node, shown }; shown: the voice as text, to detect changes
    this.open = null; // an OpenForm while a card is edited
    this.next = new NextFocus(element);
    this.handled = null; // `nonce` of the last answer that was shown
    this.replacements = new Map(); // the replacement of each voice that was deleted while picked
    this.part = (selector) => element.querySelector(selector);
    const uploads = new UploadLines(upload, () => this.part(".rp-lib-import"));
    this.part(".rp-lib-message").after(uploads.node);
    this.files = new ImportedFiles({ props, trigger, uploads }, (...message) => this.say(...message));
    this.search = this.part("input[type=search]");
    this.own = new LongList(this.part("ul[data-list=own]"), () => this.render());
    this.deleted = new DeletedVoices(this.part(".rp-lib-aside"), this.part("h3"));
    this.search.placeholder = words("library.search_hint");
    this.listen();
    guardLeaving(() => Boolean(this.open?.unsaved));
    watch("value", () => this.accept(props.value));
    this.accept(props.value);
    setInterval(() => this.tick(), TICK);
  }

  listen() {
    const root = this.part(".rp-library");
    root.addEventListener("click", ({ target, detail }) => this.press(target.closest("[data-act]"), detail));
    root.addEventListener("submit", (event) => this.submit(event));
    root.addEventListener("keydown", (event) => this.key(event));
    root.addEventListener("focusout", (event) => this.leave(event));
    this.search.addEventListener("input", () => this.own.restart());
    document.addEventListener("reprise:forgotten", () => {
      this.files.forget();
      this.search.value = "";
      this.search.dispatchEvent(new Event("input"));
    });
    this.part("select").addEventListener("change", () => this.own.restart());
    this.part(".rp-lib-import").addEventListener("click", () => this.part("input[type=file]").click());
    this.part("input[type=file]").addEventListener("change", ({ target }) => {
      this.files.importAll(wholeFiles(target.files));
      target.value = "";
    });
    root.addEventListener("change", ({ target }) => {
      if (!target.closest(".rp-lib-picture")) return;
      this.picture(target.closest("[data-id]").dataset.id, target.files[0]);
      target.value = ""; // the same file can be chosen again
    });
    root.addEventListener("dragover", (event) => this.drag(event));
    root.addEventListener("drop", (event) => this.drop(event));
    document.addEventListener("reprise:tab", ({ detail }) => detail === "library" && this.trigger("relist"));
    for (const name of ["gone", "back"]) document.addEventListener(`reprise:${name}`, () => this.files.stop());
    for (const name of ["gone", "back", "refused"]) document.addEventListener(`reprise:${name}`, () => this.failed());
    for (const name of ["playing", "stopped"]) document.addEventListener(`reprise:${name}`, () => this.mark());
  }

  // ---- answers of the server

  accept(value) {
    if (!value) return;
    const answer = value.answer?.nonce === this.handled ? null : (value.answer ?? null);
    if (value.voices && this.newest.takes(value.at)) { // an answer may come after a newer list
      learnColours(value.voices);
      this.value = { ...value, arrived: performance.now() };
    }
    if (answer?.saved && answer.id === this.open?.id && this.open.sent) this.saved();
    this.updateForm();
    this.render();
    if (!answer) return;
    this.receive(answer);
    this.handled = answer.nonce;
  }

  // Closes the form, unless its voice has been deleted meanwhile.
  saved() {
    if (this.value.voices.some(({ id }) => id === this.open.id)) return this.close();
    this.open.sent = false;
    return this.failed();
  }

  // Shows changes that were made elsewhere in the open form. A form with changes stays open when its voice is deleted.
  updateForm() {
    if (!this.open) return;
    const voice = this.value.voices.find(({ id }) => id === this.open.id);
    if (voice || this.open.changed) this.open.update(voice);
    else this.close();
  }

  receive(answer) {
    if (this.files.answered(answer)) return;
    const form = this.open?.id === answer.id ? this.open : null;
    if (form && answer.kind === "bad") {
      this.say("");
      form.complain(answer.text);
    } else {
      if (form && !form.gone) form.warn("");
      this.say(answer.text, answer.kind, answer.lines, answer.offers);
    }
    if (answer.replacement) this.replacements = withReplacement(this.replacements, answer.id, answer.replacement);
    this.next.answered(answer.id);
  }

  // Called when the server has refused an action, or is gone or back: a change can be saved again.
  failed() {
    this.open?.wait(false);
  }

  say(text, kind = "good", lines = [], offers = []) {
    const message = this.part(".rp-lib-message");
    const items = lines.map((line) => create("li", { text: line }));
    message.className = `rp-lib-message rp-notice rp-${kind}`;
    message.replaceChildren(text, ...(items.length ? [create("ul", {}, ...items)] : []));
    if (offers.length) message.append(offerForm(offers, (chosen) => this.files.importAgain(chosen)));
    message.hidden = !text && !items.length;
  }

  // ---- controls

  // clicks: two or more for a double click by habit, which would duplicate a voice twice.
  press(button, clicks) {
    if (!button) return;
    const { act: what } = button.dataset;
    const id = button.closest("[data-id]")?.dataset.id;
    const voice = this.voice(id);
    if (what === "hear") return window.reprisePlayer?.toggle(soundOf(voice), voice.clip, { voice, status: words("card.clip_of", { name: voice.name }) }).then(() => this.mark());
    if (clicks > 1) return undefined;
    if (what === "edit" || what === "name") return this.edit(id, what);
    if (what === "clips") return this.changeClips(id);
    if (what === "cancel") return this.cancel();
    if (what === "picture") return button.parentElement.querySelector("input").click();
    if (what === "no_picture") return this.files.sendPicture(id, null);
    if (what === "save" || what === "export") return undefined; // handled by the form and by the browser
    this.say("");
    if (what === "remove") return this.remove(id);
    if (what === "purge") return this.trigger("purge");
    if (what === "restore") return this.restore(id);
    return this.trigger(what, { id });
  }

  // Shows a voice's clips in New voice, in place of those that there are.
  changeClips(id) {
    if (window.repriseRecorder?.unsaved && !confirm(words("library.unsaved", { name: words("tab.new") }))) return;
    window.reprise.changing = id;
    this.trigger("change_clips");
  }

  // A new name that was not saved is discarded.
  remove(id) {
    if (this.open?.id === id) {
      this.close();
      this.render();
    }
    this.next.choose(id, ".rp-lib-aside", "[data-act=restore]");
    this.trigger("remove", { id });
  }

  restore(id) {
    this.next.choose(id, ".rp-lib-cards", "[data-act=edit], [name=name]");
    const replacement = this.replacements.get(id) ?? "";
    this.replacements.delete(id);
    this.trigger("restore", { id, replacement });
  }

  edit(id, how) {
    if (this.holdsChanges()) return;
    this.say("");
    this.close();
    const voice = this.voice(id);
    if (!voice) return this.render(); // it was deleted elsewhere
    this.open = new OpenForm(voice, how);
    this.render();
    this.open.name.focus();
    if (how === "name") this.open.name.select();
  }

  // Whether the open form has changes that the user does not want to discard.
  holdsChanges() {
    if (!this.open?.unsaved || confirm(words("library.unsaved", { name: this.open.voice.name }))) return false;
    this.open.name.focus();
    return true;
  }

  cancel() {
    const { id, how } = this.open;
    this.close();
    this.render();
    this.cards.get(id)?.node.querySelector(`[data-act=${how}]`)?.focus();
  }

  close() {
    if (this.open) this.cards.delete(this.open.id); // it is built again
    this.open = null;
  }

  submit(event) {
    event.preventDefault();
    const { id, how, changed, changes } = this.open;
    if (!changed) return this.cancel();
    this.open.send();
    this.next.choose(id, ".rp-lib-cards", `[data-act=${how}]`);
    return this.trigger("revise", { id, ...changes });
  }

  key(event) {
    if (event.key !== "Escape" || composes(event) || !this.open || !event.target.closest("form")) return;
    event.stopPropagation(); // elsewhere the key stops the speech
    event.preventDefault();
    this.cancel();
  }

  // Saves a changed name when its field loses the focus.
  leave({ target }) {
    const { open } = this;
    if (open?.how !== "name" || !open.form.contains(target) || open.busy || !document.hasFocus()) return;
    if (!open.notice.hidden) return; // it was refused: wait for Enter or Escape
    if (open.changes.name) open.form.requestSubmit();
    else setTimeout(() => this.open === open && (this.close(), this.render()));
  }

  // ---- files

  drag(event) {
    if (event.dataTransfer.types.includes("Files")) event.preventDefault();
  }

  drop(event) {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    this.files.importAll(wholeFiles(event.dataTransfer.files));
  }

  picture(id, file) {
    if (file) this.files.sendPicture(id, file);
  }

  // ---- display

  // A voice that was deleted elsewhere is still known while its form is open.
  voice(id) {
    const known = this.open ? [this.open.voice, ...this.value.voices] : this.value.voices;
    return known.find((voice) => voice.id === id);
  }

  render() {
    const focus = this.focused();
    const search = this.search.value;
    const open = this.open?.voice;
    const shown = found(this.value.voices, search, pageLanguage());
    if (open && !shown.includes(open)) shown.push(open); // the card that is being edited stays
    const listed = ordered(shown, this.part("select").value, pageLanguage());
    const kept = [this.open?.id, this.next.id];
    this.fill("own", this.own.of(listed.filter((voice) => !voice.shared), ({ id }) => kept.includes(id)));
    this.own.shown();
    this.fill("samples", listed.filter((voice) => voice.shared));
    this.showNone(search, listed);
    this.deleted.show(this.value);
    this.showUsed();
    this.mark();
    this.refocus(focus);
  }

  fill(name, voices) {
    const list = this.part(`ul[data-list=${name}]`);
    const nodes = voices.map((voice) => this.card(voice));
    for (const node of [...list.children]) if (!nodes.includes(node)) node.remove();
    // Moves only nodes that are out of place, so that the others keep the focus.
    nodes.forEach((node, i) => list.children[i] !== node && list.insertBefore(node, list.children[i] ?? null));
    for (const part of this.element.querySelectorAll(`[data-list=${name}]`)) part.hidden = !voices.length;
  }

  card(voice) {
    const node = this.open?.id === voice.id ? this.open.node : this.shownCard(voice);
    node.querySelector("[data-act=export]")?.setAttribute("href", voice.file);
    return node;
  }

  shownCard(voice) {
    const { clip: _clip, file: _file, ...lasting } = voice; // links differ each time
    const shown = JSON.stringify(lasting);
    const known = this.cards.get(voice.id);
    if (known?.shown === shown) return known.node;
    const node = create("li", { "data-id": voice.id }, shownCard(voice));
    this.cards.set(voice.id, { node, shown });
    return node;
  }

  showNone(search, listed) {
    const none = this.part(".rp-lib-none");
    const nothing = search.trim() && !listed.length;
    const own = this.value.voices.some((voice) => !voice.shared);
    none.hidden = this.value.at === 0 || (own && !nothing) || (!nothing && Boolean(search.trim()));
    const message = nothing ? words("library.no_match", { search: search.trim() }) : words("library.none");
    if (none.querySelector("span")?.textContent === message) return;
    none.replaceChildren(...emptyState(nothing ? "search" : "mic", message, nothing ? "" : "new", words("tab.new")));
  }

  showUsed() {
    const { bytes, all } = this.value;
    const link = this.part(".rp-lib-all");
    link.hidden = !all;
    if (all) link.setAttribute("href", all);
    link.setAttribute("download", "");
    if (!bytes) return;
    const amounts = { voices: bytesIn(bytes.voices, pageLanguage()), takes: bytesIn(bytes.takes, pageLanguage()) };
    this.part(".rp-lib-used").textContent = words("library.storage", amounts);
  }

  mark() {
    const playing = window.reprisePlayer?.playing;
    for (const button of this.element.querySelectorAll("[data-act=hear]")) {
      button.setAttribute("aria-pressed", String(playing === soundOf(this.voice(button.closest("[data-id]").dataset.id))));
    }
  }

  // ---- focus

  focused() {
    const active = document.activeElement;
    if (!this.element.contains(active)) return null;
    return { active, id: active.closest("[data-id]")?.dataset.id, what: active.dataset.act };
  }

  refocus(focus) {
    if (!focus || document.activeElement === focus.active) return;
    const same = focus.active.isConnected ? focus.active : this.cards.get(focus.id)?.node.querySelector(`[data-act=${focus.what}]`);
    same?.focus({ preventScroll: true });
  }

  tick() {
    this.deleted.show(this.value);
    if (!document.hidden && this.value.at && performance.now() - this.value.arrived > FRESH) this.trigger("relist");
  }
}

export function mount(component) {
  const library = new Library(component);
  window.repriseLibrary = { importFailed: () => library.files.stop(), pictureFailed: () => library.say("") };
}
