// Helpers for the text to speak: its length, style tags, examples; and the keyboard shortcut of Speak. Its value: { text, speed }
// while the user types or changes the speed (set in the page, without the server), { tags, english, demo } of model and voice, or { write: text }
// to replace the text. Its event
// `to_script` makes a script of the text; it is suggested if the text is longer than `long` characters. Its event `written`:
// the user changed the text while there was a notice above it.

import { isOfTextBox } from "./begin.js";
import { measured } from "./estimate.js";
import { isForeign } from "./language.js";
import { button, create, isShown } from "../ui/elements.js";
import { lengthOf, secondsOf } from "../ui/format.js";
import { draw } from "../ui/icons.js";
import { composes, mayFocus } from "../ui/keyboard.js";
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
const FRAMES = 60; // for which the tab may be awaited
const PAUSES = [0.3, 0.5, 1, 2]; // seconds
const area = () => document.querySelector("#rp-text textarea");
const untouched = new Set([""]); // sentences that the page wrote into the field

// Gives the text the focus, unless the user is in another field. A sentence of the page is selected, so that what is typed
// replaces it.
export function beginWriting() {
  if (!mayFocus()) return;
  area()?.focus();
  if (untouched.has(area()?.value.trim())) area().select();
}

export function mount({ element, props, trigger, watch }) {
  const find = (selector) => element.querySelector(selector);

  let dropsTags = false; // whether the model leaves out style tags and all other words in square brackets
  let onlyEnglish = true; // whether it speaks no other language
  let speed = 1; // of the take

  function showFacts(text) {
    const { count, seconds } = measured(text, speed);
    find(".rp-count").textContent = words("writing.count", { count, time: lengthOf(seconds, pageLanguage(), 0) });
    find(".rp-long").hidden = count <= props.long;
    find(".rp-unspoken").hidden = !dropsTags || !TAG.test(text);
    find(".rp-foreign").hidden = !onlyEnglish || !isForeign(text);
  }

  // Tags are offered only if the model knows them.
  function showTags(known) {
    find(".rp-tags").hidden = !known;
    const tags = Object.entries(TAGS).map(([tag, key]) => {
      const title = words("writing.tag_hint", { tag });
      return button({ text: words(key), title, onclick: () => typeInto(area(), tag) });
    });
    find(".rp-tags").replaceChildren(...(known ? tags : []));
  }

  function showExamples(english, demo) {
    const say = english ? inEnglish : words;
    const list = Object.entries(EXAMPLES).map(([name, text]) => [words(name), say(text)]);
    if (say("examples.news") !== inEnglish("examples.news")) list.push([words("writing.english"), inEnglish("examples.news")]);
    if (demo) list.push([words("writing.demo"), demo]);
    const choose = (text) => {
      find(".rp-examples").open = false;
      typeInto(area(), text, { all: true });
    };
    const buttons = list.map(([name, text]) => button({ text: name, onclick: () => choose(text) }));
    find(".rp-examples-list").replaceChildren(...buttons);
  }

  function showPauses() {
    const choose = (seconds) => {
      find(".rp-pauses").open = false;
      typeInto(area(), `[pause:${seconds}] `);
    };
    const named = (seconds) => secondsOf(seconds, pageLanguage(), seconds < 1 ? 1 : 0);
    const buttons = PAUSES.map((seconds) => button({ text: named(seconds), onclick: () => choose(seconds) }));
    find(".rp-pauses .rp-menu-list").replaceChildren(...buttons);
  }

  // Suggests the picked voice's own sentence unless the text was edited or has the focus. Sentences of other voices are
  // not edited texts, also if they were chosen as an example or were there before the page was reloaded. Done here and
  // not on the server, so that text typed meanwhile is not lost.
  const first = props.value?.text ?? "";
  untouched.add(first);
  let suggested = "";
  let forgotten = false; // whether all data was deleted, and nothing was typed since

  function suggest(demo) {
    const field = area();
    if (!demo || demo === suggested || !field) return;
    suggested = demo;
    untouched.add(demo);
    if ((document.activeElement === field && !forgotten) || !untouched.has(field.value.trim())) return;
    fill(demo);
  }

  function fill(text) {
    area().value = text;
    area().dispatchEvent(new Event("input", { bubbles: true }));
  }

  // After a deletion of all data, the field gets the text of a new page first.
  document.addEventListener("reprise:forgotten", () => (forgotten = true));
  const suggestAgain = () => forgotten && suggested && area().value === first && fill(suggested);

  let filling = false; // whether the page replaces the text

  // Replaces the text as if typed, so that the browser can bring back what was there; typing takes the focus. Waits until the
  // tab is shown, unless the user has opened another one meanwhile.
  async function write(text) {
    for (let frame = 0; frame < FRAMES && !isShown(area()); frame++) await new Promise(requestAnimationFrame);
    filling = true;
    if (isShown(area()) && mayFocus(area())) typeInto(area(), text, { all: true });
    else fill(text);
    filling = false;
  }

  function show({ tags, english, demo }) {
    dropsTags = tags === false;
    onlyEnglish = english;
    showTags(tags);
    showExamples(english, demo);
    document.documentElement.toggleAttribute("data-rp-english", english); // for examples on other tabs
    suggest(demo);
  }

  // ---- keys and clicks, from anywhere in the tab

  const here = () => isShown(element); // whether this tab is shown

  document.addEventListener("keydown", (event) => {
    const { key, defaultPrevented, repeat } = event;
    if (!here() || composes(event) || defaultPrevented || repeat) return;
    if (key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      document.querySelector("#rp-speak").click();
    }
  });

  // Gradio's `input` is fired by keys only. What the page fills in fires no trusted event, so its notice stays.
  document.addEventListener("input", ({ target, isTrusted }) => {
    if (!isTrusted || filling || target !== area()) return;
    forgotten = false;
    if (document.querySelector("#rp-speak-notice .rp-notice")) trigger("written");
  });

  // In the capture phase, so that Gradio gets no click that starts no take.
  document.addEventListener(
    "click",
    (event) => {
      const speak = event.target.closest("#rp-speak");
      if (!speak) return;
      const empty = !area().value.trim();
      if (!empty && window.reprisePlayer.mayBegin(() => speak.click())) return;
      event.stopPropagation();
      if (!empty) return;
      window.reprisePlayer.refuse(words("writing.no_text"));
      area().focus();
    },
    { capture: true },
  );

  // Why the text cannot be spoken, until it changes or is spoken again. The player then shows its former sound as before.
  function tellUnspeakable(reason = "") {
    find(".rp-unspeakable").textContent = reason;
    find(".rp-unspeakable").hidden = !reason;
  }

  document.addEventListener("reprise:begun", () => tellUnspeakable());
  document.addEventListener("reprise:unspeakable", (event) => {
    if (!here() || !isOfTextBox(event.detail.ticket)) return;
    event.preventDefault();
    tellUnspeakable(event.detail.reason);
  });

  find(".rp-long span").textContent = words("writing.long", { most: props.long });
  find(".rp-long button").onclick = () => trigger("to_script");
  find(".rp-send").onclick = () => {
    if (area().value.trim()) return trigger("to_script");
    window.reprisePlayer.refuse(words("writing.no_text"));
    return area().focus();
  };
  draw(element);
  showPauses();
  const counts = [1, 2, 3, 4].map((count) => create("option", { value: count, text: words("writing.takes", { count }) }));
  const atOnce = find(".rp-at-once");
  atOnce.replaceChildren(...counts);
  if (remembered(AT_ONCE)) atOnce.value = remembered(AT_ONCE);
  atOnce.addEventListener("change", () => remember(AT_ONCE, atOnce.value));
  const mac = /Mac|iPhone|iPad/.test(navigator.platform);
  find(".rp-keys").textContent = words(mac ? "writing.keys_mac" : "writing.keys");
  show({ english: true });
  showFacts(first);
  watch("value", () => {
    const value = props.value ?? {};
    if ("write" in value) write(value.write);
    else if (!("text" in value)) show(value);
    else setTimeout(suggestAgain); // the field gets the text after the event
    tellUnspeakable();
    speed = value.speed || speed;
    showFacts(value.text ?? area()?.value ?? "");
  });
}
