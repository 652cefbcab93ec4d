// The takes of the latest group, as buttons that switch between them.

import { button, create } from "../../ui/elements.js";
import { lengthOf } from "../../ui/format.js";
import { pageLanguage, words } from "../../ui/words.js";

const LETTERS = "ABCD";

export class TakeGroup {
  // switchTo(id, ids): plays a take from the position of another one. keep(id, others): deletes the others.
  constructor(element, { switchTo, keep }) {
    Object.assign(this, { element, switchTo, keep, picked: null, shown: null });
    this.find = (selector) => element.querySelector(selector);
  }

  // takes: those of the group. playing: the id of the sound that plays.
  show(takes, playing) {
    const ids = takes.map(({ id }) => id);
    if (ids.includes(playing)) this.picked = playing;
    if (!ids.includes(this.picked)) [this.picked] = ids;
    this.element.hidden = !takes.length;
    const shown = JSON.stringify([ids, this.picked, playing]);
    if (!takes.length || shown === this.shown) return;
    this.shown = shown;
    this.showTakes(takes, ids, playing);
    const { picked } = this;
    const text = words("takes.keep", { name: LETTERS[ids.indexOf(picked)] });
    const others = ids.filter((id) => id !== picked);
    this.find(".rp-group-act").replaceChildren(button({ class: "rp-group-keep rp-quiet", text, onclick: () => this.keep(picked, others) }));
  }

  showTakes(takes, ids, playing) {
    const list = this.find(".rp-group-takes");
    const focused = [...list.children].indexOf(document.activeElement);
    const buttons = takes.map(({ id, seconds }, i) => {
      const name = LETTERS[i];
      const label = words("takes.turn", { name });
      const node = button({ class: "rp-group-take", "aria-pressed": id === this.picked, "aria-label": label, onclick: () => this.switchTo(id, ids) });
      node.dataset.sounding = playing === id;
      node.append(create("strong", { text: name }), create("small", { text: lengthOf(seconds, pageLanguage()) }));
      return node;
    });
    list.replaceChildren(...buttons);
    buttons[focused]?.focus();
  }
}
