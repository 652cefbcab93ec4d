// The list of scripts, and ways to a new one: an example, and files that are chosen or dropped on the tab.

import { UploadCancelled } from "../connection/upload.js";
import { UploadLines } from "../connection/upload_lines.js";
import { copyLink } from "../draft/deep_links.js";
import { button, create } from "../ui/elements.js";
import { emptyState } from "../ui/empty.js";
import { lengthOf, momentOf } from "../ui/format.js";
import { typeInto } from "../ui/typing.js";
import { deleteWithUndo, isDeleted } from "../ui/undo.js";
import { inEnglish, pageLanguage, words } from "../ui/words.js";

// Writes an example into the field for a new script, in a language that the model speaks.
function tryDialogue() {
  const translate = document.documentElement.hasAttribute("data-rp-english") ? inEnglish : words;
  typeInto(document.querySelector("#rp-script-text textarea"), translate("examples.script"), { all: true });
}

export class ScriptList {
  // accept: the files that the browser offers first, as for an input. The server refuses others, in the page's language.
  constructor(root, editor, { accept, upload }) {
    Object.assign(this, { root, editor, sent: "" }); // sent: the name of the last file
    this.uploads = new UploadLines(upload, () => document.querySelector("#rp-script-upload"));
    const input = create("input", { type: "file", accept, hidden: true, onchange: ({ target }) => {
      this.send(target.files[0]);
      target.value = "";
    } });
    root.querySelector(".rp-script-message").after(input, this.uploads.node);
    document.addEventListener("click", ({ target }) => target.closest?.("#rp-script-upload") && input.click());
    this.lines = root.querySelector(".rp-script-list");
    const begin = button({ class: "rp-quiet", text: words("script.try"), onclick: tryDialogue });
    root.querySelector(".rp-script-none").append(...emptyState("scroll", words("script.none")), begin);
    this.acceptDrops(document.querySelector("#rp-tab-script"));
  }

  // The focus stays on the same button of the same script.
  show(scripts) {
    this.root.querySelector(".rp-script-yours").hidden = !scripts.length;
    this.root.querySelector(".rp-script-none").hidden = scripts.length > 0;
    const deleted = new Map([...this.lines.children].filter(isDeleted).map((line) => [line.dataset.id, line]));
    const focus = document.activeElement;
    const held = [...this.lines.children].find((line) => line.contains(focus));
    const place = held && [...held.querySelectorAll("button")].indexOf(focus);
    this.lines.replaceChildren(...scripts.map((script) => deleted.get(script.id) ?? this.line(script)));
    if (held) this.focus(held.dataset.id, place);
  }

  // place: of the button in the script's line. If the script is gone, the field for a new one takes the focus.
  focus(id, place = 0) {
    const line = [...this.lines.children].find(({ dataset }) => dataset.id === id);
    const button = line?.querySelectorAll("button")[place];
    (button ?? document.querySelector("#rp-script-text textarea"))?.focus({ preventScroll: true });
  }

  line({ id, name, changed, cards, done, spoken, running }) {
    // Scripts may have the same name: the time of the last change tells them apart.
    const time = lengthOf(spoken, pageLanguage());
    const facts = [momentOf(changed, pageLanguage()), words("script.done", { done, cards, time })];
    if (running) facts.push(words("script.speaking"));
    const open = button({ class: "rp-script-title", text: name, onclick: () => this.editor.open(id) });
    const attributes = { text: words("script.discard"), "aria-label": words("script.discard_one", { name }) };
    const discard = button({ ...attributes, onclick: () => deleteWithUndo(line, () => this.editor.ask("discard", { id })) });
    const link = button({ text: words("links.copy"), "aria-label": `${words("links.copy")}: ${name}`, onclick: () => copyLink("script", id) });
    const line = create("li", { "data-id": id }, open, create("span", { class: "rp-script-facts", text: facts.join(" · ") }), link, discard);
    return line;
  }

  // Files that are dropped on the tab become scripts while none is open.
  acceptDrops(tab) {
    const offers = ({ dataTransfer }) => !this.editor.script && dataTransfer.types.includes("Files");
    tab.addEventListener("dragover", (event) => offers(event) && event.preventDefault());
    tab.addEventListener("drop", (event) => {
      if (!offers(event)) return;
      event.preventDefault();
      this.send(event.dataTransfer.files[0]);
    });
  }

  // HTML of the notice while the server reads a file: a large book takes seconds.
  readingNotice() {
    return create("p", { class: "rp-notice rp-busy", role: "status", text: words("clip.cutting", { name: this.sent }) }).outerHTML;
  }

  // Has the server make a script of a file.
  async send(file) {
    if (!file) return;
    const { name } = file;
    this.editor.say(words("library.uploading", { name }), "busy");
    try {
      const { path } = await this.uploads.send(file);
      if (!this.editor.script) this.editor.say(""); // what is said since then about an open script stays
      this.sent = name;
      this.editor.trigger("bring", { path, name });
    } catch (error) {
      this.editor.say(error.message || words("library.upload_failed", { name }), error instanceof UploadCancelled ? "good" : "bad");
    }
  }
}
