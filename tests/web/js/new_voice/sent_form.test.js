// The form while its voice is saved: what was sent is cleared afterwards, and nothing else.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "../helpers.js";
import { interrupted } from "../../../../web/static/new_voice/form_notice.js";
import { clearSent, endSaving, isBeingSaved, saveOneAtATime, sendForm } from "../../../../web/static/new_voice/sent_form.js";
import { useWords } from "../../../../web/static/ui/words.js";

const UNCHANGED = { __type__: "update" };
const FORM = [{ chosen: 0, clips: [{ path: "/a" }, { path: "/b" }] }, "Anna", "", true, "A low voice", "", { id: "v", name: "Anna" }, "token"];
let saved = [];
let clips = null; // the recorder's
let shown = {}; // elements by selector
let press; // the listener for clicks
globalThis.document = {
  addEventListener: (_type, listener) => (press = listener),
  dispatchEvent: ({ type, detail }) => saved.push([type, detail]),
  querySelector: (selector) => shown[selector],
};

let begun; // whether the text to speak has the focus
globalThis.window = { repriseRecorder: { ready: () => Promise.resolve(clips) }, reprise: { beginWriting: () => (begun = true) } };

test.beforeEach(() => {
  saved = [];
  shown = {};
  begun = false;
  [clips] = FORM;
});

test("the texts and clips of a saved voice are cleared", async () => {
  assert.deepEqual(await sendForm(...FORM), FORM);
  assert.deepEqual(clearSent("", "Anna", "", "A low voice"), ["", "", ""]);
  assert.deepEqual(saved, [["reprise:saved", { paths: ["/a", "/b"], changed: "v" }]]);
});

test("after a lost answer the page does not claim that the voice was not saved", () => {
  useWords(english("connection"));
  assert.match(interrupted(), /role="alert">.*not known whether the voice was saved/);
});

test("texts that were changed meanwhile stay", async () => {
  await sendForm(...FORM);
  assert.deepEqual(clearSent("", "Ben", "", "A high voice"), [UNCHANGED, "", UNCHANGED]);
});

test("everything stays if the voice was not saved", async () => {
  await sendForm(...FORM);
  assert.deepEqual(clearSent("<p>There is already a voice called Anna</p>", "Anna", "", ""), [UNCHANGED, UNCHANGED, UNCHANGED]);
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
  const click = (...matching) => {
    let reached = true;
    const target = { closest: (selector) => matching.some((each) => selector.startsWith(each)) };
    press({ target, stopPropagation: () => (reached = false) });
    return reached;
  };
  saveOneAtATime();
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
  assert.ok(!begun);
});

test("the clips of the voice are known until it is saved", async () => {
  await sendForm(...FORM);
  assert.deepEqual(["/a", "/c"].map(isBeingSaved), [true, false]);
  endSaving();
  assert.ok(!isBeingSaved("/a"));
  assert.ok(begun);
});
