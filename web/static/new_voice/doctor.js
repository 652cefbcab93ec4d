// The findings about the chosen clip: first those that need attention, each with its remedy, then those that are fine.

import { button, create } from "../ui/elements.js";
import { words } from "../ui/words.js";

const MARKS = { green: "✓", amber: "!", red: "✕" };

export class DoctorView {
  // repair(clip, row): the remedy of a row was pressed.
  constructor(element, repair) {
    this.repair = repair;
    this.find = (selector) => element.querySelector(selector);
  }

  // clip: a Clip or null. remarks: findings about its transcript, which are shown beside it.
  show(clip, remarks) {
    const box = this.find(".rp-doctor");
    box.hidden = !clip;
    if (!clip) return;
    const found = clip.found?.part === clip.part ? clip.found : null; // null while it is examined
    this.sayVerdict(verdictOf(found, remarks));
    const rows = found?.rows ?? [];
    const fine = rows.filter((row) => row.light === "green");
    const press = (row) => this.repair(clip, row);
    this.fill(box.querySelector(":scope > .rp-findings"), inOrder(rows), press);
    this.fill(this.find(".rp-fine .rp-findings"), fine, press);
    this.find(".rp-fine").hidden = !fine.length;
    this.find(".rp-fine summary").textContent = words("clip.fine", { number: fine.length, all: rows.length });
  }

  // Writes the text only if it changed, because screen readers would repeat it.
  sayVerdict({ light, message }) {
    const line = this.find(".rp-verdict");
    const verdict = `${light} ${message}`;
    if (line.dataset.rendered === verdict) return;
    line.dataset.rendered = verdict;
    line.replaceChildren(...(light ? [markOf(light)] : []), message);
  }

  // The focus stays on a remedy while there is one, and then moves to the verdict.
  fill(list, rows, press) {
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.fix : null;
    list.replaceChildren(...rows.map((row) => findingLine(row, press)));
    list.hidden = !rows.length;
    if (focused) (list.querySelector(`[data-fix="${focused}"]`) ?? this.find(".rp-verdict")).focus({ preventScroll: true });
  }
}

// The verdict on a clip as a whole: never better than that on its transcript. light: "" while it is examined.
export function verdictOf(found, remarks) {
  if (!found || found.problem) return { light: "", message: found?.problem ?? words("clip.examining") };
  const [worst] = inOrder(remarks);
  if (found.light !== "green" || !worst) return { light: found.light, message: found.verdict };
  return { light: worst.light, message: words("clip.look_at_words") };
}

// The findings that need attention, the worst first.
export function inOrder(rows) {
  return ["red", "amber"].flatMap((light) => rows.filter((row) => row.light === light));
}

// One finding: its light as a mark, with a word for screen readers, its message, and a button if there is a remedy.
export function findingLine(row, press = null) {
  const light = create("span", { class: "rp-unseen", text: `${row.word}: ` });
  const message = create("span", { class: "rp-message", text: row.message });
  const line = create("li", { "data-light": row.light }, markOf(row.light), light, message);
  if (row.fix && row.light !== "green" && press) {
    line.append(button({ text: row.label, "data-fix": row.fix, onclick: () => press(row) }));
  }
  return line;
}

function markOf(light) {
  return create("span", { class: "rp-light", text: MARKS[light], "data-light": light, "aria-hidden": true });
}
