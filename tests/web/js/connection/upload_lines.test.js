// The lines of uploads.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "../helpers.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("library"));

class Element {
  constructor() {
    this.children = [];
  }
  append(...nodes) {
    for (const node of nodes) node.parent = this;
    this.children.push(...nodes);
  }
  remove() {
    this.parent.children.splice(this.parent.children.indexOf(this), 1);
  }
  contains(node) {
    return node === this || this.children.some((child) => child.contains(node));
  }
  addEventListener(_name, heard) {
    this.click = heard;
  }
  setAttribute(name, value) {
    this[name] = value;
  }
  scrollIntoView() {}
  focus() {
    document.activeElement = this;
  }
}
globalThis.document = { createElement: () => new Element(), activeElement: null };
const { UploadLines } = await import("../../../../web/static/connection/upload_lines.js");

// Uploads that end when the test, or a button, ends them.
function linesOf() {
  const uploads = new Map();
  const upload = ({ name }, progress, signal) => new Promise((resolve, reject) => {
    uploads.set(name, { progress, end: () => resolve({ path: `/${name}` }) });
    signal.addEventListener("abort", () => reject(new Error(`${name} was cancelled`)));
  });
  const opener = new Element();
  const lines = new UploadLines(upload, () => opener);
  const shown = () => lines.node.children.map(({ children: [name, bar] }) => [name.textContent, bar.value]);
  return { lines, uploads, opener, shown };
}

test("each of several uploads has its progress and its Cancel, and keeps the focus of others", async () => {
  const { lines, uploads, opener, shown } = linesOf();
  const [one, two] = ["one", "two"].map((name) => lines.send({ name }));
  uploads.get("one").progress(0.5);
  assert.deepEqual(shown(), [["one", 0.5], ["two", 0]]);
  assert.equal(lines.node.children[0].children[1]["aria-label"], "Uploading “one”…");
  const [, , cancel] = lines.node.children[0].children;
  const [, , other] = lines.node.children[1].children;
  other.focus();
  cancel.click();
  await assert.rejects(one, /one was cancelled/);
  assert.deepEqual([shown(), document.activeElement], [[["two", 0]], other]);
  uploads.get("two").end();
  assert.deepEqual([await two, shown(), document.activeElement], [{ path: "/two" }, [], opener]);
});

test("a further file for the same use replaces the first, and all can be cancelled at once", async () => {
  const { lines, uploads, shown } = linesOf();
  const first = lines.send({ name: "first" }, "picture of Ann");
  const second = lines.send({ name: "second" }, "picture of Ann");
  await assert.rejects(first, /first was cancelled/);
  uploads.get("second").progress(0.25);
  assert.deepEqual(shown(), [["second", 0.25]]);
  const other = lines.send({ name: "other" });
  const ends = [assert.rejects(second, /second was cancelled/), assert.rejects(other, /other was cancelled/)];
  lines.cancelAll();
  await Promise.all(ends);
  assert.deepEqual([shown(), lines.sending.size], [[], 0]);
});
