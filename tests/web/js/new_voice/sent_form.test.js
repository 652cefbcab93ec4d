// The form while its voice is saved: what was sent is cleared afterwards, and nothing else.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "../helpers.js";
import { interrupted } from "../../../../web/static/new_voice/form_notice.js";
import { clearSent, endSaving, hasActed, isBeingSaved, saveOneAtATime, sendForm } from "../../../../web/static/new_voice/sent_form.js";
import { useWords } from "../../../../web/static/ui/words.js";

const UNCHANGED = { __type__: "update" };
const FORM = [{ chosen: 0, clips: [{ path: "/a" }, { path: "/b" }] }, "Anna", "", true, "A low voice", "", { id: "v", name: "Anna" }, "token"];
let saved = [];
let clips = null; // the recorder's
let shown = {}; // elements by selector
const listeners = {}; // by event
globalThis.document = {
  addEventListener(type, listener, { capture = false } = {}) {
    assert.equal(capture, ["click", "input"].includes(type), "Gradio's listeners are called later");
    listeners[type] = listener;
  },
  dispatchEvent: ({ type, detail }) => saved.push([type, detail]),
  querySelector: (selector) => shown[selector],
};

globalThis.window = { repriseRecorder: { ready: () => Promise.resolve(clips) } };
saveOneAtATime();

// An element of the page, which matches these selectors or is in elements that do, in a component with this id.
const element = (id, ...matching) => ({
  closest: (selector) => (selector.includes("id^=") ? { id } : matching.some((each) => selector.startsWith(each))),
});
const onSave = element("rp-save", "#rp-save", "button");

// Sends a trusted event; returns whether it reaches Gradio.
function use(target, type = "click") {
  let reached = true;
  listeners[type]({ target, type, isTrusted: true, stopPropagation: () => (reached = false) });
  return reached;
}

test.beforeEach(() => {
  saved = [];
  shown = {};
  [clips] = FORM;
});

test("the texts and clips of a saved voice are cleared", async () => {
  assert.ok(use(onSave));
  assert.deepEqual(await sendForm(...FORM), FORM);
  assert.deepEqual(clearSent("", "Anna", "", "A low voice"), [false, "", "", ""]);
  assert.deepEqual(saved, [["reprise:saved", { paths: ["/a", "/b"], changed: "v" }]]);
});

test("after a lost answer the page does not claim that the voice was not saved", () => {
  useWords(english("connection"));
  assert.match(interrupted(), /role="alert">.*not known whether the voice was saved/);
});

test("texts that were changed meanwhile stay", async () => {
  await sendForm(...FORM);
  assert.deepEqual(clearSent("", "Ben", "", "A high voice"), [false, UNCHANGED, "", UNCHANGED]);
});

test("everything stays if the voice was not saved", async () => {
  await sendForm(...FORM);
  assert.deepEqual(clearSent("<p>There is already a voice called Anna</p>", "Anna", "", ""), [UNCHANGED, UNCHANGED, UNCHANGED, UNCHANGED]);
  assert.deepEqual(saved, []);
});

test("clips whose files were uploaded again are sent in place of those of the event", async () => {
  clips = { chosen: 0, clips: [{ path: "/again" }] };
  assert.deepEqual(await sendForm(...FORM), [clips, ...FORM.slice(1)]);
  clearSent("", "Anna", "", "A low voice");
  assert.deepEqual(saved[0][1], { paths: ["/again"], changed: "v" });
});

test("a described voice has no clips", async () => {
  clips = null;
  assert.deepEqual(await sendForm(...FORM.with(6, null)), [null, ...FORM.slice(1, 6), null, "token"]);
  clearSent("", "Anna", "", "A low voice");
  assert.deepEqual(saved[0][1], { paths: [], changed: undefined });
});

test("Save pressed before the event of a refusal is over is pressed again when it is", async () => {
  let presses = 0;
  shown = { "#rp-save": { click: () => (presses += 1) }, "#rp-form-notice .rp-notice": {} };
  const click = (...matching) => use(element("rp-save", ...matching));
  endSaving();
  assert.ok(click("#rp-save"));
  await sendForm(...FORM);
  assert.ok(click());
  assert.ok(!click("#rp-save", "#rp-tab-new:has(.rp-busy)"), "while it is saved");
  endSaving();
  assert.equal(presses, 0);
  await sendForm(...FORM);
  assert.ok(!click("#rp-save"));
  assert.ok(!click("#rp-save"));
  assert.equal(presses, 0);
  endSaving();
  endSaving();
  assert.equal(presses, 1);
});

test("the clips of the voice are known until it is saved", async () => {
  await sendForm(...FORM);
  assert.deepEqual(["/a", "/c"].map(isBeingSaved), [true, false]);
  endSaving();
  assert.ok(!isBeingSaved("/a"));
});

test("what the user does after pressing Save counts, and nothing before it", () => {
  const acts = {
    "types elsewhere": () => use(element("rp-text", "button, a"), "input"),
    "presses a button": () => use(element("rp-record", "button, a")),
    "opens a tab by an arrow key": () => listeners["reprise:tab"]({ detail: "library" }),
  };
  for (const [name, act] of Object.entries(acts)) {
    act();
    use(onSave);
    assert.ok(!hasActed(), name);
    act();
    assert.ok(hasActed(), name);
  }
  use(onSave);
  use(element("rp-tab-new")); // beside all controls
  use(onSave, "input");
  assert.ok(!hasActed());
});

test("a consent that was given meanwhile stays", async () => {
  use(onSave);
  await sendForm(...FORM);
  use(element("rp-consent", "button, a"), "input");
  assert.deepEqual(clearSent("", "Ben", "", ""), [UNCHANGED, UNCHANGED, "", UNCHANGED]);
});
