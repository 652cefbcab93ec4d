// The list of scripts, and ways to a new one: an example, and files that are dropped on the tab.

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

// Has the browser offer these files first. The server refuses others, in the page's language.
function offerFiles({ target }, accept) {
  const upload = target.closest?.("#rp-script-upload");
  if (upload) upload.previousElementSibling.accept = accept;
}

// The notice while the server reads a file: a large book takes seconds. file: as Gradio describes it.
export function readingNotice({ orig_name: name }) {
  return create("p", { class: "rp-notice rp-busy", role: "status", text: words("clip.cutting", { name }) }).outerHTML;
}

// Has Gradio's upload button take a file that is dropped on the tab. Of several, it takes the first.
function takeDropped({ files }) {
  const one = new DataTransfer();
  one.items.add(files[0]);
  const input = document.querySelector("#rp-script-upload").previousElementSibling;
  input.files = one.files;
  input.dispatchEvent(new Event("change", { bubbles: true }));
}

export class ScriptList {
  // accept: the files that become scripts, as for an input.
  constructor(root, editor, accept) {
    Object.assign(this, { root, editor });
    this.lines = root.querySelector(".rp-script-list");
    const begin = button({ class: "rp-quiet", text: words("script.try"), onclick: tryDialogue });
    root.querySelector(".rp-script-none").append(...emptyState("scroll", words("script.none")), begin);
    document.addEventListener("click", (event) => offerFiles(event, accept), { capture: true }); // before Gradio's
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
      if (event.dataTransfer.files.length) takeDropped(event.dataTransfer);
    });
  }
}
