// The text of a card while it is written, saved and changed elsewhere.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { english } from "../helpers.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("script"), "en");

class Element {
  constructor() {
    Object.assign(this, { value: "", selectionStart: 0, selectionEnd: 0, style: {}, children: [], acts: {} });
  }
  append(...children) {
    this.children.push(...children);
  }
  replaceChildren(...children) {
    this.children = children;
  }
  addEventListener(type, act) {
    this.acts[type] = act;
  }
  setAttribute() {}
  setSelectionRange(start, end) {
    Object.assign(this, { selectionStart: start, selectionEnd: end });
  }
  setRangeText(text, start, end) {
    this.value = this.value.slice(0, start) + text + this.value.slice(end);
  }
  select() {}
  dispatchEvent({ type }) {
    this.acts[type]?.();
  }
  focus() {
    document.activeElement?.blur();
    document.activeElement = this;
    this.acts.focus?.();
  }
  blur() {
    if (document.activeElement !== this) return;
    document.activeElement = null;
    this.acts.change?.();
    this.acts.blur?.();
  }
}

const listeners = {}; // of the window, by event
globalThis.document = { activeElement: null, createElement: () => new Element(), execCommand: () => false, querySelectorAll: () => [] };
globalThis.addEventListener = (type, act) => (listeners[type] = act);
globalThis.removeEventListener = () => {};
globalThis.window = { fetch() {} };
const timers = new Map(); // { act, ms } by number
let timersMade = 0;
globalThis.setTimeout = (act, ms) => timers.set(++timersMade, { act, ms }) && timersMade;
globalThis.clearTimeout = (timer) => timers.delete(timer);

const { CardText } = await import("../../../../web/static/script/card/card_text.js");

let asked; // requests without an answer
let view;
let text;
let field;

beforeEach(() => {
  asked = [];
  timers.clear();
  document.activeElement = null;
  view = {
    card: { id: "a", text: "Once. Twice." },
    node: new Element(),
    editor: {
      act: (what, { id }, values) => new Promise((resolve) => asked.push({ what, id, ...values, resolve })),
      split: (_card, ...place) => asked.push({ what: "split", place }),
    },
  };
  text = new CardText(view);
  ({ field } = text);
  text.fill();
  field.focus();
});

const soon = () => new Promise((resolve) => setImmediate(resolve));
const offers = () => text.replaced.children.filter(({ acts }) => acts?.click);

function type(value, caret = value.length) {
  field.value = value;
  field.setSelectionRange(caret, caret);
  field.acts.input();
}

// The server stores another text of the card, and tells this page.
function store(stored) {
  view.card = { ...view.card, text: stored };
  text.fill();
}

// Answers the oldest request. answer: null if it is refused.
async function answer(value) {
  const { resolve } = asked.shift();
  if (value) store(value.saved);
  resolve(value);
  await soon();
}

// Takes the focus from the field, whose text has not changed since it was saved.
function leave() {
  document.activeElement = null;
  field.acts.blur();
}

function pause() {
  const [[timer, { act, ms }]] = timers;
  timers.delete(timer);
  act();
  return ms;
}

test("a text is saved a second after the last key, and when the field is left", async () => {
  type("Once more");
  field.scrollHeight = 40;
  type("Once more.");
  assert.deepEqual([timers.size, text.edited, field.style.height], [1, true, "40px"]);
  assert.equal(pause(), 1_000);
  assert.deepEqual([asked.length, asked[0].what, asked[0].text], [1, "edit", "Once more."]);
  field.blur();
  assert.equal(asked.length, 1, "it is under way");
  await answer({ saved: "Once more." });
  field.focus();
  field.blur();
  assert.deepEqual([asked.length, text.edited], [0, false]);
});

test("an empty text is sent only when the field is left, and stays if it is refused", async () => {
  type(" ");
  pause();
  assert.deepEqual([asked.length, text.edited], [0, false]);
  field.blur();
  await answer(null);
  assert.equal(field.value, "Once. Twice.", "without words, the stored text is shown again");
  field.focus();
  type("Too long.");
  field.blur();
  await answer(null);
  leave();
  assert.deepEqual([field.value, text.edited], ["Too long.", true]);
  text.write();
  assert.equal(asked.length, 1, "it is tried again");
});

test("while two texts are under way, neither is sent again", async () => {
  for (const value of ["One.", "One two."]) {
    type(value);
    pause();
  }
  await answer({ saved: "One." });
  text.write();
  assert.deepEqual(asked.map((request) => request.text), ["One two."]);
});

test("a text under way is sent again when the page is left, for it may not have been sent yet", () => {
  type("Once more.");
  text.write();
  text.write();
  assert.equal(asked.length, 1);
  listeners.pagehide();
  text.write();
  assert.equal(asked.length, 2);
  [...timers.values()].find(({ ms }) => ms === undefined).act(); // the page may be shown again
});

test("spaces around a text stay while it is written", async () => {
  type("Once ");
  pause();
  await answer({ saved: "Once" });
  assert.equal(field.value, "Once ");
  type("Once more ");
  field.blur();
  assert.equal(field.value, "Once more ");
  await answer({ saved: "Once more" });
  assert.equal(field.value, "Once more");
  field.focus();
  for (const left of [() => field.blur(), () => leave()]) {
    type("Once more  ");
    left();
  }
  assert.equal(field.value, "Once more  ", "it is under way");
  await answer({ saved: "Once more" });
  assert.equal(field.value, "Once more");
  field.focus();
  type("Once ");
  pause();
  await answer({ saved: "Once" });
  leave();
  assert.equal(field.value, "Once");
});

test("a text that the server has changed is shown with the caret as far from its end", async () => {
  type("<b>One</b> two.", 11);
  pause();
  await answer({ saved: "One two." });
  assert.deepEqual([field.value, field.selectionStart], ["One two.", 4]);
});

test("a text of another page is offered if it was not seen here before it was replaced", async () => {
  type("Mine.");
  pause();
  await answer({ saved: "Mine.", replaced: "Once. Twice." });
  assert.deepEqual(offers(), []);
  type("Mine, longer.");
  pause();
  await answer({ saved: "Mine, longer.", replaced: "Theirs." });
  const [use, keep] = offers();
  document.activeElement = null;
  keep.acts.click();
  assert.deepEqual([offers(), document.activeElement, asked.length], [[], field, 0]);
  use.acts.click();
  assert.deepEqual([field.value, asked[0].text], ["Theirs.", "Theirs."]);
  await answer({ saved: "Theirs.", replaced: "Mine, longer." });
  assert.deepEqual(offers(), [], "both texts were seen");
});

test("a text is not offered again, nor one of this page whose answer was lost or that the server had changed", async () => {
  for (const [value, saved, replaced, count] of [["A.", "A.", "Theirs.", 2], ["B.", "B.", "Theirs.", 0], ["C.", null, "", 0], ["<b>D.</b>", "D.", "C.", 0], ["E.", "E.", "D.", 0]]) {
    type(value);
    pause();
    text.replaced.replaceChildren();
    type(`${value} And more.`);
    await answer(saved && { saved, replaced });
    assert.equal(offers().length, count, value);
  }
});

test("Enter saves and leaves the field, Escape restores its text, and neither if it ends a conversion", () => {
  let prevented = 0;
  let stopped = 0;
  const event = { preventDefault: () => (prevented += 1), stopPropagation: () => (stopped += 1), target: field };
  const press = (key, more) => field.acts.keydown({ key, ...event, ...more });
  press("Escape");
  assert.equal(stopped, 0, "there is nothing to restore");
  type("Once more.");
  for (const more of [{ isComposing: true }, { shiftKey: true }]) press("Enter", more);
  press("Escape", { isComposing: true });
  assert.deepEqual([document.activeElement, asked.length, prevented, field.value], [field, 0, 0, "Once more."]);
  press("Enter");
  assert.deepEqual([document.activeElement, asked[0].text, prevented], [view.node, "Once more.", 1]);
  store("Once more.");
  field.focus();
  type("Never.");
  pause();
  press("Escape");
  assert.deepEqual([field.value, asked.at(-1).text, stopped], ["Once more.", "Once more.", 1]);
});

test("a card is split where its text was left, in the trimmed text, unless another text is shown since", async () => {
  type("  Once. Twice.", 8);
  text.split();
  assert.deepEqual(asked.pop().place, ["Once. Twice.", 6]);
  await answer({ saved: "Once. Twice." });
  text.split();
  assert.deepEqual(asked.pop().place, ["Once. Twice.", 6]);
  store("Thrice. Again.");
  text.split();
  assert.deepEqual(asked.pop().place, ["Thrice. Again.", 0]);
});
