// The text of a card. It is saved while it is typed, and then shown as it was stored.

import { trimmedPlace } from "../cards.js";
import { sent, show } from "../fields.js";
import { isLeaving } from "../../connection/leaving.js";
import { button, create } from "../../ui/elements.js";
import { composes } from "../../ui/keyboard.js";
import { typeInto } from "../../ui/typing.js";
import { words } from "../../ui/words.js";

const SAVE_AFTER = 1_000; // ms after the last key
const GROWS = globalThis.CSS?.supports("field-sizing", "content");

export class CardText {
  // view: the CardView.
  constructor(view) {
    this.view = view;
    this.texts = new Set(); // the card's texts that were shown or written here
    this.caret = 0; // its last place in the trimmed text; the field's own moves to the end when the saved text is shown
    this.asked = null; // the text of the last request, until it is answered
    this.field = create("textarea", {
      class: "rp-script-card-text", rows: "1", maxlength: "5000",
      onfocus: () => (this.former = view.card.text), onkeydown: (event) => this.typed(event),
      oninput: () => this.changed(), onchange: () => this.write(),
      onblur: () => this.left(),
    });
    this.replaced = create("div", { class: "rp-script-card-replaced rp-heard", role: "status" });
  }

  fill() {
    const { card } = this.view;
    const shown = this.field.value.trim();
    if (!show(this.field, card.text)) return;
    if (card.text !== shown) this.caret = 0; // it was in another text
    this.texts.add(card.text);
    this.grow();
  }

  typed(event) {
    if (composes(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      this.view.node.focus(); // which saves it
    } else if (event.key === "Escape" && this.field.value !== this.former) {
      event.stopPropagation();
      this.field.value = this.former;
      this.grow();
      this.write();
    }
  }

  // Saves the text while it is typed, so that a reload loses nothing. An empty text is sent, and refused, only on leaving the field.
  changed() {
    this.grow();
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.field.value.trim() && this.write(), SAVE_AFTER);
  }

  // Whether the server has not stored the text that the field shows.
  get edited() {
    return this.field.value.trim() !== "" && this.field.value !== this.view.card.text;
  }

  write() {
    clearTimeout(this.saving);
    const { editor, card } = this.view;
    const text = this.field.value;
    // When the page unloads, the last request may not have been sent yet.
    if (text === (isLeaving() ? card.text : (this.asked ?? card.text))) return;
    this.asked = text;
    this.texts.add(text.trim());
    const answer = editor.act("edit", card, { text }).then((done) => {
      if (this.asked === text) this.asked = null;
      if (!done) return text.trim(); // words that were refused stay in the field, so that they are not lost
      this.texts.add(done.saved);
      this.showSaved();
      if (done.replaced && !this.texts.has(done.replaced)) this.offerReplaced(done.replaced);
      return done.saved === text.trim(); // otherwise SSML was removed
    });
    sent(this.field, answer, () => this.showOther());
  }

  // Shows the saved text in place of another one, with the caret as far from the end.
  showOther() {
    const { field } = this;
    const after = field.value.length - field.selectionEnd;
    this.fill();
    if (document.activeElement === field) field.setSelectionRange(field.value.length - after, field.value.length - after);
  }

  // Offers the text that another page had saved, which this page did not show before it replaced it.
  offerReplaced(other) {
    const { field, replaced } = this;
    this.texts.add(other);
    const answer = (key, act) => {
      const done = () => {
        replaced.replaceChildren();
        field.focus();
        act?.();
      };
      return button({ class: "rp-heard-repair", text: words(key), onclick: done });
    };
    const use = () => {
      typeInto(field, other, { all: true });
      this.write();
    };
    const said = create("p", { text: words("script.replaced", { text: other }) });
    replaced.replaceChildren(said, answer("script.use_replaced", use), " ", answer("script.keep_own"));
  }

  left() {
    this.caret = trimmedPlace(this.field.value, this.field.selectionStart);
    if (!this.asked) this.showSaved();
  }

  // Once the field is left, it shows the text as it was saved: without spaces around it, also if it was saved before.
  showSaved() {
    const { field } = this;
    if (document.activeElement === field || field.value.trim() !== this.view.card.text) return;
    field.shown = field.value; // so that it can be replaced
    this.fill();
  }

  // Splits the card at the caret.
  split() {
    this.field.blur(); // which saves it
    this.view.editor.split(this.view.card, this.field.value.trim(), this.caret);
  }

  grow() {
    if (GROWS) return;
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
  }
}
