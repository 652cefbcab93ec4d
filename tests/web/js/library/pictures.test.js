// Pictures of voices are requested for the portraits that are shown.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";

import { mount } from "../../../../web/static/library/pictures.js";
import { learnColours, showPortrait } from "../../../../web/static/library/portraits.js";

const [ADA, BEN] = ["a".repeat(32), "b".repeat(32)];

function portrait(id) {
  const [style, marks] = [{ setProperty: () => {} }, {}];
  const node = { classList: { add: () => {} }, toggleAttribute: (name, on) => (marks[name] = on), style };
  const show = () => showPortrait(node, { id, name: "Name" });
  show();
  return { show, node, marks, picture: () => style.backgroundImage };
}

globalThis.document = new EventTarget();
let changed;
const [props, asked] = [{ value: null }, []];
mount({ props, trigger: (_, { ids }) => asked.push(ids), watch: (_, act) => (changed = act) });

const learn = (picture) => learnColours([ADA, BEN].map((id) => ({ id, name: id, made: "2026", picture })));

async function wait(ms) {
  mock.timers.tick(ms);
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
}

function answer(pictures) {
  props.value = { pictures };
  changed();
  return wait(0);
}

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  asked.length = 0;
});
afterEach(() => mock.timers.reset());

test("an answer that comes after its time is not taken for that to the next request", async () => {
  learn("1");
  const ada = portrait(ADA);
  await wait(150);
  assert.deepEqual(asked, [[ADA]]);
  await wait(10_000); // no answer
  const ben = portrait(BEN);
  await wait(150);
  assert.deepEqual(asked, [[ADA], [BEN]]);
  await answer({ [ADA]: "data:ada" });
  await answer({ [BEN]: "data:ben" });
  assert.equal(ben.picture(), 'url("data:ben")');
  await wait(15_000);
  await wait(150);
  assert.deepEqual(asked, [[ADA], [BEN], [ADA]]);
  await answer({ [ADA]: "data:ada" });
  assert.equal(ada.picture(), 'url("data:ada")');
});

test("a picture that was removed before it was fetched is shown when it is chosen again", async () => {
  learn("2");
  const ada = portrait(ADA);
  await wait(150);
  learn("");
  await answer({ [ADA]: "" });
  learn("2");
  ada.show();
  await wait(150);
  assert.deepEqual(asked, [[ADA], [ADA]]);
  await answer({ [ADA]: "data:ada" });
  assert.equal(ada.picture(), 'url("data:ada")');
});

test("pictures whose request was lost with the connection are requested again when it is back", async () => {
  learn("3");
  const ada = portrait(ADA);
  await wait(150);
  document.dispatchEvent(new Event("reprise:back"));
  await wait(0);
  ada.show(); // the page shows its lists again
  await wait(150);
  assert.deepEqual(asked, [[ADA], [ADA]]);
  await answer({ [ADA]: "data:ada" });
  assert.equal(ada.picture(), 'url("data:ada")');
});

test("a portrait has initials until its picture is there, and a voice that is unknown is grey", async () => {
  learn("4");
  const ada = portrait(ADA);
  const state = ({ node, marks }) => [node.textContent, marks["data-picture"], marks["data-grey"]];
  assert.deepEqual(state(ada), ["N", false, false]);
  await wait(150);
  await answer({ [ADA]: "data:ada" });
  assert.deepEqual(state(ada), ["", true, false]);
  assert.deepEqual(state(portrait("c".repeat(32))), ["N", false, true]);
});
