// The list of voices that were deleted and can still be restored.

import { act } from "./card.js";
import { create } from "../ui/elements.js";
import { pageLanguage, words } from "../ui/words.js";

export class DeletedVoices {
  // next: gets the focus when the button that deletes for good is gone.
  constructor(element, next) {
    Object.assign(this, { element, next });
    this.shown = "[]"; // the ids as text, to detect changes
  }

  // aside: the deleted voices, each with the seconds `left` when the list arrived.
  show({ aside, arrived }) {
    const passed = performance.now() - arrived;
    const restorable = aside.filter(({ left }) => left * 1000 > passed);
    const shown = JSON.stringify(restorable.map(({ id }) => id));
    if (shown === this.shown) return;
    this.shown = shown;
    const lines = restorable.map((voice) => this.line(voice, Date.now() + voice.left * 1000 - passed));
    const finish = act("purge", words("library.let_go"));
    const purged = document.activeElement?.dataset.act === "purge";
    this.element.replaceChildren(...(lines.length ? [create("ul", {}, ...lines), finish] : []));
    if (purged) (lines.length ? finish : this.next).focus({ preventScroll: true });
  }

  line({ id, name }, until) {
    const time = new Intl.DateTimeFormat(pageLanguage(), { timeStyle: "short" }).format(new Date(until));
    const message = words("library.deleted", { name, time });
    const undo = act("restore", words("library.undo"), { class: "rp-lib-main" });
    return create("li", { "data-id": id }, create("span", { text: message }), undo);
  }
}
