// The cover of the audiobook.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "../helpers.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("library", "script"));

class Element {
  acts = {};
  append() {}
  addEventListener(type, act) {
    this.acts[type] = act;
  }
  focus() {
    document.activeElement = this;
  }
  setAttribute() {}
  toggleAttribute() {}
  removeAttribute(name) {
    delete this[name];
  }
}
globalThis.document = { createElement: () => new Element() };
const { CoverField } = await import("../../../../web/static/script/cover.js");

test("a picture is removed, and the focus moves from the button, which goes", () => {
  const asked = [];
  const field = new CoverField((...request) => asked.push(request));
  field.remove.acts.click();
  assert.deepEqual([asked, document.activeElement === field.choose], [[["set_cover"]], true]);
  let opened = 0;
  field.input.click = () => (opened += 1);
  field.choose.acts.click();
  assert.equal(opened, 1);
});

test("a file that is no picture is sent as one that the server refuses, and nothing if none was chosen", async () => {
  const asked = [];
  const field = new CoverField((...request) => asked.push(request));
  field.input.files = [];
  await field.input.acts.change();
  assert.deepEqual(asked, []);
  Object.assign(field.input, { files: [new File(["text"], "a.txt")], value: "a.txt" });
  await field.input.acts.change();
  await new Promise(setImmediate);
  assert.deepEqual([asked, field.input.value], [[["set_cover", { text: "." }]], ""]);
});

test("a picture whose answer is lost is asked for again; an answer about another one is dropped", async () => {
  const answers = [];
  const ask = (what, _values, { quiet }) => {
    assert.ok(what === "cover" && quiet, "the user has not asked for it");
    return new Promise((resolve) => answers.push(resolve));
  };
  const field = new CoverField(ask);
  const first = field.show("a");
  answers[0](null);
  await first;
  const again = field.show("a");
  const other = field.show("b");
  answers[2]({ cover: "B" });
  await other;
  answers[1]({ cover: "A" });
  await again;
  assert.deepEqual([answers.length, field.picture.src], [3, "B"]);
});
