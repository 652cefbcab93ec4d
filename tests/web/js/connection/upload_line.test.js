// The line of an upload: its progress, its button, and uploads that replace each other.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { english } from "../helpers.js";
import { UploadLine } from "../../../../web/static/connection/upload_line.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("library"), "en");

class Element {
  attributes = {};
  children = [];
  append(...children) {
    this.children.push(...children);
  }
  toggleAttribute(name, on) {
    this[name] = on;
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  contains(other) {
    return this.children.includes(other);
  }
  scrollIntoView() {
    this.seen = true;
  }
  focus() {
    document.activeElement = this;
  }
}
globalThis.document = { activeElement: null, createElement: () => new Element() };

let uploads; // { file, progress, signal, resolve, reject }
let opener;
let line;

beforeEach(() => {
  uploads = [];
  opener = new Element();
  document.activeElement = null;
  const upload = (file, progress, signal) => new Promise((resolve, reject) => uploads.push({ file, progress, signal, resolve, reject }));
  line = new UploadLine(upload, () => opener);
});

const soon = () => new Promise(setImmediate);
const shown = () => [line.node.hidden, line.bar.value, line.bar.attributes["aria-label"]];

test("the line shows how much of the file is sent, until it is sent", async () => {
  assert.equal(line.node.hidden, true);
  const sent = line.send({ name: "a.wav" });
  assert.deepEqual([shown(), line.node.seen], [[false, 0, "Uploading “a.wav”…"], true]);
  uploads[0].progress(0.5);
  assert.deepEqual(shown().slice(0, 2), [false, 0.5]);
  uploads[0].resolve({ path: "/a" });
  assert.deepEqual([await sent, line.node.hidden, line.cancelled], [{ path: "/a" }, true, false]);
});

test("the button cancels the upload, and hands its focus on", async () => {
  const sent = line.send({ name: "a.wav" });
  uploads[0].signal.addEventListener("abort", () => uploads[0].reject(new Error("Cancelled.")));
  line.cancel.focus();
  line.cancel.onclick();
  await assert.rejects(sent, { message: "Cancelled." });
  assert.deepEqual([line.node.hidden, line.cancelled, document.activeElement === opener], [true, true, true]);
});

test("the focus stays where it is if it is not on the button", async () => {
  const sent = line.send({ name: "a.wav" });
  const other = new Element();
  other.focus();
  uploads[0].resolve({});
  await sent;
  assert.equal(document.activeElement, other);
});

test("of several uploads the last one is shown, and is the one that the button cancels", async () => {
  const first = line.send({ name: "a.wav" });
  line.send({ name: "b.wav" });
  uploads[0].progress(0.9);
  assert.deepEqual(shown(), [false, 0, "Uploading “b.wav”…"]);
  uploads[0].resolve({});
  await first;
  await soon();
  assert.equal(line.node.hidden, false);
  line.cancel.onclick();
  assert.deepEqual(uploads.map(({ signal }) => signal.aborted), [false, true]);
});
