// Fields that show values of the server.

import assert from "node:assert/strict";
import { test } from "node:test";

import { sent, show } from "../../../../web/static/script/fields.js";

globalThis.document = { activeElement: null };

function shown(value) {
  const field = { value: "" };
  show(field, value);
  return field;
}

test("a field that is being edited keeps its value", () => {
  const field = shown("1");
  document.activeElement = field;
  assert.equal(show(field, "2"), true);
  field.value = "3";
  assert.equal(show(field, "4"), false);
  document.activeElement = null;
  assert.equal(show(field, "4"), true);
  assert.equal(field.value, "4");
});

test("a value that is stored while its field has the focus is known, so that an edit after it stays", () => {
  const field = shown("1");
  document.activeElement = field;
  field.value = "2";
  assert.equal(show(field, "2"), true);
  field.value = "1";
  assert.equal(show(field, "3"), false);
  assert.equal(field.value, "1");
  document.activeElement = null;
});

test("a refused value gives way to the stored one, also in a focused field", async () => {
  const field = shown("1");
  document.activeElement = field;
  const stored = (value) => () => show(field, value);
  field.value = "2";
  await sent(field, Promise.resolve({}), stored("2"));
  show(field, "2"); // with the answer
  field.value = "70";
  await sent(field, Promise.resolve(null), stored("2"));
  assert.equal(field.value, "2");
  document.activeElement = null;
});

test("a value that was entered before the refusal of the former stays", async () => {
  const field = shown("1");
  field.value = "70";
  const over = sent(field, Promise.resolve(null), () => show(field, "1"));
  field.value = "5";
  await over;
  assert.equal(field.value, "5");
});
