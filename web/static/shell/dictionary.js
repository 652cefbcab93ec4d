// The dialog of the owner's pronunciation dictionary. Buttons with [data-rp-dictionary] open it at the word that is selected in a text.
// Its value: { entries, csv, phones, message, kind, saved, erased, nonce } from web/tabs/speak/dictionary.py. Its events: `save_entry`, `erase`, `import_entries`.

import { decoded } from "./text_file.js";
import { downloadBlob } from "./download.js";
import { languageOptions } from "../library/card.js";
import { languageName } from "../library/voices.js";
import { dialogIn } from "../ui/dialog.js";
import { button, create } from "../ui/elements.js";
import { draw, drawing } from "../ui/icons.js";
import { composes } from "../ui/keyboard.js";
import { pageLanguage, words } from "../ui/words.js";

const MAX_CHARACTERS = 80; // characters of a word
const OPENERS = "[data-rp-dictionary]";
const TEXTS = "#rp-text textarea, .rp-script-card-text";

// The selected words without punctuation around them; "" for none, or if the selection is too long for an entry.
export function wordOf(text, from, to) {
  const selected = text.slice(from, to).replace(/^[\s\p{P}]+|[\s\p{P}]+$/gu, "");
  return selected.length <= MAX_CHARACTERS && !/\n/.test(selected) && selected.split(/\s+/).length <= 5 ? selected : "";
}

// The entry for a word: as it is written, or in another case where case does not matter; undefined for none.
export function entryFor(word, entries) {
  const folded = word.toLowerCase();
  const alike = entries.filter((entry) => !entry.match_case && entry.word.toLowerCase() === folded);
  return [...entries.filter((entry) => entry.word === word), ...alike][0];
}

const selectedIn = (field) => (field?.matches?.(TEXTS) ? wordOf(field.value, field.selectionStart, field.selectionEnd) : "");

class Dictionary {
  constructor({ element, props, trigger, watch }) {
    Object.assign(this, { props, trigger, selected: "", field: null, heard: null, shown: null });
    draw(element);
    this.find = (selector) => element.querySelector(selector);
    this.dialog = dialogIn(element, OPENERS, () => this.open());
    this.dialog.addEventListener("close", () => this.returnFocus());
    this.form = this.find("form");
    this.form.elements.language.replaceChildren(...languageOptions(words("words.every_language")));
    this.form.onsubmit = (event) => this.save(event);
    this.form.onkeydown = (event) => this.enter(event);
    this.find(".rp-dictionary-export").onclick = () => this.export();
    this.find(".rp-dictionary-import").onclick = () => this.find("[type=file]").click();
    this.find("[type=file]").onchange = ({ target }) => this.import(target);
    document.addEventListener("selectionchange", () => this.select());
    // The text keeps the focus: Safari would give it to nothing, and clear the selection.
    document.addEventListener("mousedown", (event) => event.target.closest?.(OPENERS) && event.preventDefault());
    watch("value", () => this.answered());
    this.answered();
    this.name();
  }

  // ---- the buttons that open it

  // The Tab key moves the focus from the text to a button; the text's selection is kept until the user selects something else.
  select() {
    const field = document.activeElement;
    if (field?.matches?.(OPENERS)) return;
    const word = selectedIn(field);
    if (word === this.selected) return;
    this.selected = word;
    if (word) this.field = field;
    this.name();
  }

  name() {
    const title = this.selected ? words("words.say_like", { word: this.selected }) : words("words.title");
    for (const node of document.querySelectorAll(OPENERS)) {
      node.querySelector(".rp-dictionary-name").textContent = title;
      node.toggleAttribute("data-word", Boolean(this.selected));
    }
  }

  // The button of a card is hidden again, as no word is selected any more: the text with the word gets the focus.
  returnFocus() {
    const { activeElement } = document;
    if (activeElement === document.body || this.dialog.contains(activeElement)) this.field?.focus();
  }

  open() {
    const { elements } = this.form;
    this.form.reset();
    this.say("");
    elements.word.value = this.selected;
    const known = entryFor(this.selected, this.entries);
    if (known) this.fill(known);
    this.dialog.showModal();
    (this.selected ? elements.spoken : elements.word).focus();
  }

  // ---- entries

  get entries() {
    return this.props.value?.entries ?? [];
  }

  answered() {
    const { message = "", kind = "good", nonce, saved, erased } = this.props.value ?? {};
    this.find(".rp-dictionary-phones").textContent = words(this.props.value?.phones ? "words.phones" : "words.phones_unknown");
    this.list();
    if (!message || nonce === this.heard) return;
    this.heard = nonce;
    this.say(message, kind);
    const written = Object.entries(this.written());
    if (saved && written.every(([name, value]) => saved[name] === value)) this.clear();
    if (erased) this.find(".rp-dialog-message").append(" ", button({ class: "rp-quiet", text: words("library.undo"), onclick: () => this.restore(erased) }));
  }

  // Rows are built only for other entries, so that the focus stays in them.
  list() {
    const shown = JSON.stringify(this.entries);
    if (shown === this.shown) return;
    this.shown = shown;
    this.find("tbody").replaceChildren(...this.entries.map((entry) => this.row(entry)));
    this.find(".rp-dictionary-table").hidden = !this.entries.length;
    this.find(".rp-dictionary-none").hidden = this.entries.length > 0;
    this.find(".rp-dictionary-export").disabled = !this.entries.length;
  }

  row(entry) {
    const { word, spoken, match_case: exact, language } = entry;
    const edit = button({ class: "rp-dictionary-edit", text: word, onclick: () => this.fill(entry), title: words("words.edit") });
    const name = create("td", {}, edit);
    if (exact) name.append(create("small", { text: words("words.match_case") }));
    const label = words("words.delete", { word });
    const erase = button({ class: "rp-icon-button", "aria-label": label, title: label, onclick: () => this.erase(entry) });
    erase.append(drawing("trash"));
    const place = language ? languageName(language, pageLanguage()) : words("words.every_language");
    return create("tr", {}, name, create("td", { text: spoken }), create("td", { text: place }), create("td", {}, erase));
  }

  fill({ word, spoken, match_case: exact, language }) {
    const { elements } = this.form;
    Object.assign(elements.word, { value: word });
    Object.assign(elements.spoken, { value: spoken });
    elements.language.replaceChildren(...languageOptions(words("words.every_language"), language));
    elements.language.value = language;
    elements.match_case.checked = exact;
    elements.spoken.focus();
  }

  // Submits on Enter, which would otherwise click the button. Enter during IME composition does not submit.
  enter(event) {
    if (event.key !== "Enter" || composes(event) || event.target.localName !== "input") return;
    event.preventDefault();
    this.form.requestSubmit();
  }

  // Empties the form. The focus moves from its last field to the first, for the next entry.
  clear() {
    this.form.reset();
    if (document.activeElement === this.form.elements.spoken) this.form.elements.word.focus();
  }

  // The entry in the form.
  written() {
    const { word, spoken, language, match_case: exact } = this.form.elements;
    return { word: word.value.trim(), spoken: spoken.value.trim(), language: language.value, match_case: exact.checked };
  }

  save(event) {
    event.preventDefault();
    this.trigger("save_entry", this.written());
  }

  erase(entry) {
    this.trigger("erase", entry);
    this.form.elements.word.focus();
  }

  // The answer replaces the message, and with it the button.
  restore(entry) {
    this.trigger("save_entry", entry);
    this.form.elements.word.focus();
  }

  // ---- files

  async import(input) {
    const [file] = input.files;
    input.value = "";
    if (file) this.trigger("import_entries", { text: decoded(new Uint8Array(await file.arrayBuffer())) });
  }

  export() {
    const marked = `\ufeff${this.props.value.csv}`; // by which spreadsheets recognise UTF-8
    downloadBlob(new Blob([marked], { type: "text/csv" }), "pronunciation.csv");
  }

  say(text, kind = "good") {
    const message = this.find(".rp-dialog-message");
    message.hidden = !text;
    message.className = `rp-dialog-message rp-notice rp-${kind}`;
    message.setAttribute("role", kind === "bad" ? "alert" : "status");
    message.textContent = text;
    if (text) message.scrollIntoView({ block: "nearest" }); // in a low window the dialog is scrolled
  }
}

export const mount = (component) => new Dictionary(component);
