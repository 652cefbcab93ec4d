// Helpers for the text to speak: its length, style tags, examples; and the keyboard shortcut of Speak. Its value: { text,
// speed } while the user types or changes the speed (set in the page, without the server), { tags, english, demo } of model
// and voice, or { write: text } to replace the text. Its event `to_script` makes a script of the text; it is suggested if the
// text is longer than `long` characters. Its event `written`: the user changed the text while there was a notice above it.

import { isOfTextBox } from "./begin.js";
import { measured } from "./estimate.js";
import { isForeign } from "./language.js";
import { textArea, TextField } from "./text_field.js";
import { button, create, isShown } from "../ui/elements.js";
import { lengthOf, secondsOf } from "../ui/format.js";
import { draw } from "../ui/icons.js";
import { composes } from "../ui/keyboard.js";
import { remember, remembered } from "../ui/remember.js";
import { typeInto } from "../ui/typing.js";
import { inEnglish, pageLanguage, words } from "../ui/words.js";

const AT_ONCE = "reprise.at_once"; // number of takes of a text
// The menu's entries and their texts.
const EXAMPLES = {
  "writing.news": "examples.news",
  "writing.dialogue": "examples.dialogue",
  "writing.numbers": "examples.numbers",
};
const TAGS = {
  "[whisper]": "writing.whisper",
  "[laughing]": "writing.laughing",
  "[chuckle]": "writing.chuckle",
  "[sigh]": "writing.sigh",
  "[excited]": "writing.excited",
  "[sad]": "writing.sad",
  "[angry]": "writing.angry",
  "[surprised]": "writing.surprised",
  "[emphasis]": "writing.emphasis",
  "[short pause]": "writing.pause",
  "[inhale]": "writing.inhale",
  "[shouting]": "writing.shouting",
};
const TAG = /\[(?! *pause *:)[^[\]\n]{1,80}\](?!\()/i; // neither a pause nor a link in Markdown
const PAUSES = [0.3, 0.5, 1, 2]; // seconds

// The speed in the form. The component's value with a new speed is lost if the server's next one replaces it at once.
const chosenSpeed = () => Number(document.querySelector("#rp-take-speed input[type=number]")?.value) || 1;

export function mount({ element, props, trigger, watch }) {
  const writing = new Writing(element, props, trigger);
  watch("value", () => writing.receive(props.value ?? {}));
}

class Writing {
  constructor(element, props, trigger) {
    Object.assign(this, { element, props, trigger });
    this.dropsTags = false; // whether the model leaves out style tags and all other words in square brackets
    this.onlyEnglish = true; // whether it speaks no other language
    const first = props.value?.text ?? "";
    this.field = new TextField(first, () => this.edited());
    draw(element);
    this.drawMenus();
    this.listen();
    this.show({ english: true });
    this.showFacts(first);
  }

  find(selector) {
    return this.element.querySelector(selector);
  }

  receive(value) {
    if ("write" in value) this.field.write(value.write);
    else if (!("text" in value)) this.show(value);
    else setTimeout(() => this.field.suggestAgain()); // the field gets the text after the event
    this.tellUnspeakable();
    this.showFacts(value.text ?? textArea()?.value ?? "", value.speed);
  }

  // What model and voice suggest.
  show({ tags, english, demo }) {
    this.dropsTags = tags === false;
    this.onlyEnglish = english;
    this.showTags(tags);
    this.showExamples(english, demo);
    document.documentElement.toggleAttribute("data-rp-english", english); // for examples on other tabs
    this.field.suggest(demo);
  }

  // speed: of the take.
  showFacts(text, speed = chosenSpeed()) {
    const { count, seconds } = measured(text, speed);
    this.find(".rp-count").textContent = words("writing.count", { count, time: lengthOf(seconds, pageLanguage(), 0) });
    this.find(".rp-long").hidden = count <= this.props.long;
    this.find(".rp-unspoken").hidden = !this.dropsTags || !TAG.test(text);
    this.find(".rp-foreign").hidden = !this.onlyEnglish || !isForeign(text);
  }

  // Why the text cannot be spoken, until it changes or is spoken again. The player then shows its former sound as before.
  tellUnspeakable(reason = "") {
    this.find(".rp-unspeakable").textContent = reason;
    this.find(".rp-unspeakable").hidden = !reason;
  }

  // ---- menus

  drawMenus() {
    this.find(".rp-long span").textContent = words("writing.long", { most: this.props.long });
    const mac = /Mac|iPhone|iPad/.test(navigator.platform);
    this.find(".rp-keys").textContent = words(mac ? "writing.keys_mac" : "writing.keys");
    const named = (seconds) => secondsOf(seconds, pageLanguage(), seconds < 1 ? 1 : 0);
    const pause = (seconds) =>
      button({ text: named(seconds), onclick: () => this.insert(".rp-pauses", `[pause:${seconds}] `) });
    this.find(".rp-pauses .rp-menu-list").replaceChildren(...PAUSES.map(pause));
    const takes = (count) => create("option", { value: count, text: words("writing.takes", { count }) });
    const atOnce = this.find(".rp-at-once");
    atOnce.replaceChildren(...[1, 2, 3, 4].map(takes));
    if (remembered(AT_ONCE)) atOnce.value = remembered(AT_ONCE);
    atOnce.addEventListener("change", () => remember(AT_ONCE, atOnce.value));
  }

  // Tags are offered only if the model knows them.
  showTags(known) {
    this.find(".rp-tags").hidden = !known;
    const tags = Object.entries(TAGS).map(([tag, key]) => {
      const title = words("writing.tag_hint", { tag });
      return button({ text: words(key), title, onclick: () => typeInto(textArea(), tag) });
    });
    this.find(".rp-tags").replaceChildren(...(known ? tags : []));
  }

  showExamples(english, demo) {
    const say = english ? inEnglish : words;
    const list = Object.entries(EXAMPLES).map(([name, text]) => [words(name), say(text)]);
    if (say("examples.news") !== inEnglish("examples.news")) list.push([words("writing.english"), inEnglish("examples.news")]);
    if (demo) list.push([words("writing.demo"), demo]);
    const example = ([name, text]) =>
      button({ text: name, onclick: () => this.insert(".rp-examples", text, { all: true }) });
    this.find(".rp-examples-list").replaceChildren(...list.map(example));
  }

  insert(menu, text, options) {
    this.find(menu).open = false;
    typeInto(textArea(), text, options);
  }

  // ---- keys and clicks, from anywhere in the tab

  listen() {
    document.addEventListener("keydown", (event) => this.pressed(event));
    // In the capture phase, so that Gradio gets no click that starts no take.
    document.addEventListener("click", (event) => this.clicked(event), { capture: true });
    document.addEventListener("reprise:begun", () => this.tellUnspeakable());
    document.addEventListener("reprise:unspeakable", (event) => {
      if (!isShown(this.element) || !isOfTextBox(event.detail.ticket)) return;
      event.preventDefault();
      this.tellUnspeakable(event.detail.reason);
    });
    this.find(".rp-long button").onclick = () => this.trigger("to_script");
    this.find(".rp-send").onclick = () => (textArea().value.trim() ? this.trigger("to_script") : this.refuseEmpty());
  }

  pressed(event) {
    const { key, defaultPrevented, repeat } = event;
    if (!isShown(this.element) || composes(event) || defaultPrevented || repeat) return;
    if (key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      document.querySelector("#rp-speak").click();
    }
  }

  clicked(event) {
    const speak = event.target.closest("#rp-speak");
    if (!speak) return;
    const empty = !textArea().value.trim();
    if (!empty && window.reprisePlayer.mayBegin(() => speak.click())) return;
    event.stopPropagation();
    if (empty) this.refuseEmpty();
  }

  refuseEmpty() {
    window.reprisePlayer.refuse(words("writing.no_text"));
    textArea().focus();
  }

  edited() {
    if (document.querySelector("#rp-speak-notice .rp-notice")) this.trigger("written");
  }
}
