// Drafts that survive a reload of the page.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Draft } from "../../../../web/static/draft/draft.js";

const UNCHANGED = { __type__: "update" };

function storage() {
  const kept = new Map();
  return () => ({ getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value), kept });
}

test("a reload restores entered values once, except in fields being edited", () => {
  const [session, local] = [storage(), storage()];
  const first = new Draft(session, local);
  first.opened("anna");
  first.keep({ text: "before it was restored" });
  assert.deepEqual(first.restore(["text"]), [UNCHANGED]);
  first.keep({ text: "My words.", seed: "7" });
  first.keep({ tab: "script" });
  const again = new Draft(session, local);
  assert.equal(again.opened("anna"), false);
  again.keep({ text: "suggested by the page", seed: "8" });
  const filled = again.restore(["text", "seed", "other", "tab"], (name) => name === "seed");
  assert.deepEqual(filled, ["My words.", UNCHANGED, UNCHANGED, "script"]);
  assert.deepEqual(again.values, { text: "My words.", seed: "8", tab: "script" }, "a value that the user changed before is kept");
  assert.deepEqual(again.restore(["text"]), [UNCHANGED], "values are restored only once");
});

test("the voice is known before the owner, and a new page starts with it", () => {
  const local = storage();
  const first = new Draft(storage(), local);
  assert.equal(first.voice, null);
  first.opened("anna");
  first.voice = "v1";
  const other = new Draft(storage(), local);
  assert.equal(other.voice, "v1");
  other.voice = "v2";
  assert.deepEqual([first.voice, other.voice], ["v1", "v2"], "each page has its own");
});

test("drafts are separate for each user of a browser", () => {
  const [session, local] = [storage(), storage()];
  const open = (owner) => {
    const draft = new Draft(session, local);
    return [draft.opened(owner), draft.voice, draft.restore(["text"])[0], draft];
  };
  const anna = open("anna")[3];
  anna.keep({ text: "Hers." });
  anna.voice = "hers";
  const [other, voice, text, ben] = open("ben");
  assert.deepEqual([other, voice, text], [true, null, UNCHANGED]);
  ben.keep({ text: "His." });
  assert.deepEqual(open("anna").slice(0, 3), [true, "hers", "Hers."]);
});

test("missing and invalid storage is handled", () => {
  const refused = () => {
    throw new Error("no");
  };
  const draft = new Draft(refused, refused);
  draft.opened("anna");
  draft.voice = "v";
  assert.deepEqual([draft.voice, draft.restore(["text"])], [null, [UNCHANGED]]);
  draft.keep({ text: "x" });
  for (const rubbish of ["{", "null", '"text"', "7"]) {
    const strange = new Draft(() => ({ getItem: () => rubbish, setItem() {} }), storage());
    strange.opened("anna");
    assert.deepEqual(strange.restore(["text"]), [UNCHANGED]);
  }
});
