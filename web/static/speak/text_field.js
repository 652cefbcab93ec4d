// The text to speak: the field, and what the page itself writes into it.

import { isShown } from "../ui/elements.js";
import { mayFocus } from "../ui/keyboard.js";
import { typeInto } from "../ui/typing.js";

const FRAMES = 60; // for which the tab may be awaited
export const textArea = () => document.querySelector("#rp-text textarea");
const written = new Set([""]); // sentences that the page wrote into the field

// Gives the text the focus, unless the user is in another field. A sentence of the page is selected, so that what is typed
// replaces it.
export function beginWriting() {
  if (!mayFocus()) return;
  textArea()?.focus();
  if (written.has(textArea()?.value.trim())) textArea().select();
}

// first: the text of a new page. edited: called when the user has changed the text.
export class TextField {
  constructor(first, edited) {
    Object.assign(this, { first, edited });
    written.add(first);
    this.suggested = "";
    this.forgotten = false; // whether all data was deleted, and nothing was typed since
    this.writing = false; // whether the page replaces the text
    // After a deletion of all data, the field gets the text of a new page first.
    document.addEventListener("reprise:forgotten", () => (this.forgotten = true));
    // Gradio's `input` is fired by keys only, and what the page fills in fires no trusted event.
    document.addEventListener("input", (event) => this.typed(event));
  }

  typed({ target, isTrusted }) {
    if (!isTrusted || this.writing || target !== textArea()) return;
    this.forgotten = false;
    this.edited();
  }

  // Suggests the picked voice's own sentence unless the text was edited or has the focus. Sentences of other voices are
  // not edited texts, also if they were chosen as an example or were there before the page was reloaded. Done here and
  // not on the server, so that text typed meanwhile is not lost.
  suggest(sentence) {
    const field = textArea();
    if (!sentence || sentence === this.suggested || !field) return;
    this.suggested = sentence;
    written.add(sentence);
    if ((document.activeElement === field && !this.forgotten) || !written.has(field.value.trim())) return;
    this.fill(sentence);
  }

  suggestAgain() {
    if (this.forgotten && this.suggested && textArea().value === this.first) this.fill(this.suggested);
  }

  fill(text) {
    textArea().value = text;
    textArea().dispatchEvent(new Event("input", { bubbles: true }));
  }

  // Replaces the text as if typed, so that the browser can bring back what was there; typing takes the focus. Waits until the
  // tab is shown, unless the user has opened another one meanwhile.
  async write(text) {
    for (let frame = 0; frame < FRAMES && !isShown(textArea()); frame++) await new Promise(requestAnimationFrame);
    this.writing = true;
    if (isShown(textArea()) && mayFocus(textArea())) typeInto(textArea(), text, { all: true });
    else this.fill(text);
    this.writing = false;
  }
}
