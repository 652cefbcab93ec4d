// The chapters of the open script with their lengths. Those that are not ticked can be deleted.

import { chaptersOf } from "./cards.js";
import { create } from "../ui/elements.js";
import { lengthOf } from "../ui/format.js";
import { pageLanguage, words } from "../ui/words.js";

export class ChapterChoice {
  // remove(ids): deletes the chapters that begin with these cards.
  constructor(node, remove) {
    const find = (name) => node.querySelector(`.rp-script-chapters-${name}`);
    Object.assign(this, { node, chapters: [], dropped: new Set() });
    Object.assign(this, { all: find("all"), list: find("list"), remove: find("remove"), summary: node.querySelector("summary") });
    this.all.addEventListener("change", () => this.tickAll(this.all.checked));
    this.remove.addEventListener("click", () => remove(this.unticked));
  }

  // name: of the script, which is the title of what precedes its first chapter.
  show(cards, name) {
    const chapters = chaptersOf(cards, name);
    if (JSON.stringify(chapters) === JSON.stringify(this.chapters)) return;
    this.chapters = chapters;
    this.node.hidden = chapters.length < 2;
    this.summary.textContent = words("script.chapters", { count: chapters.length });
    this.list.replaceChildren(...chapters.map((chapter) => this.line(chapter)));
    this.showTicks();
  }

  line({ id, title, seconds }) {
    const tick = create("input", { type: "checkbox" });
    tick.checked = !this.dropped.has(id);
    tick.addEventListener("change", () => {
      this.dropped[tick.checked ? "delete" : "add"](id);
      this.showTicks();
    });
    const time = create("span", { class: "rp-script-facts", text: `≈ ${lengthOf(seconds, pageLanguage(), 0)}` });
    return create("li", {}, create("label", {}, tick, create("span", { text: title }), time));
  }

  get unticked() {
    return this.chapters.map(({ id }) => id).filter((id) => this.dropped.has(id));
  }

  tickAll(on) {
    this.dropped = new Set(on ? [] : this.chapters.map(({ id }) => id));
    for (const tick of this.list.querySelectorAll("input")) tick.checked = on;
    this.showTicks();
  }

  showTicks() {
    const count = this.unticked.length;
    const some = count > 0 && count < this.chapters.length;
    this.all.checked = count === 0;
    this.all.indeterminate = some;
    this.remove.disabled = !some; // a script without any is discarded instead
    this.remove.textContent = words("script.remove_chapters", { count });
  }
}
