// The cover of the audiobook.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "../helpers.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("library", "script"));

class Element {
  append() {}
  addEventListener() {}
  setAttribute() {}
  toggleAttribute() {}
  removeAttribute(name) {
    delete this[name];
  }
}
globalThis.document = { createElement: () => new Element() };
const { CoverField } = await import("../../../../web/static/script/cover.js");

test("a picture whose answer is lost is asked for again; an answer about another one is dropped", async () => {
  const answers = [];
  const field = new CoverField(() => new Promise((resolve) => answers.push(resolve)));
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
