// The transcript of the chosen clip. It must match the chosen part exactly.

import { findingLine } from "./doctor.js";
import { words } from "../ui/words.js";

const REST_MS = 500; // after the last key, before the server counts the words

export class TranscriptView {
  // written(): the transcript was changed by hand. check(clip): has the server count its words. dictate(clip): has the
  // server transcribe it, if the page has a recogniser.
  constructor(element, { written, check, dictate }) {
    Object.assign(this, { written, check, clip: null });
    this.find = (selector) => element.querySelector(selector);
    this.field = this.find(".rp-words");
    this.field.oninput = () => this.write();
    this.find(".rp-dictate").onclick = () => dictate(this.clip);
  }

  write() {
    const { clip } = this;
    clip.write(this.field.value);
    this.written();
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.check(clip), REST_MS);
  }

  // clip: a Clip or null. findings: those about its transcript.
  show(clip, findings) {
    this.clip = clip;
    this.find(".rp-transcript").hidden = !clip;
    if (!clip) return;
    if (this.field.value !== clip.words) this.field.value = clip.words;
    this.find(".rp-dictate").hidden = !window.repriseRecogniser;
    this.find(".rp-dictate").setAttribute("aria-disabled", Boolean(clip.dictating)); // not `disabled`, which would lose the focus
    this.find(".rp-dictate").textContent = words(clip.dictating ? "clip.dictating" : "clip.dictate");
    const failure = clip.undictated && { light: "red", word: words("clip.dictate"), message: clip.undictated };
    this.showFindings(failure ? [failure, ...findings] : findings);
  }

  showFindings(rows) {
    const list = this.find(".rp-words-findings");
    const text = rows.map((row) => row.message).join("\n");
    if (list.dataset.rendered === text) return; // screen readers would repeat it
    list.dataset.rendered = text;
    list.replaceChildren(...rows.map((row) => findingLine(row)));
  }
}

// Findings about a clip's transcript; none if it is right or not yet written.
export function remarks(clip) {
  const rows = [];
  if (clip.moved) rows.push({ light: "amber", word: words("clip.amber"), message: words("clip.moved") });
  if (clip.words.trim() && clip.wordsRow && clip.wordsRow.light !== "green") rows.push(clip.wordsRow);
  return rows;
}
