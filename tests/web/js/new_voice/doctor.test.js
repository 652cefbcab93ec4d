// The order of the doctor's rows, the verdict, and remarks on a clip's words.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "../helpers.js";
import { Clip } from "../../../../web/static/new_voice/clips/clips.js";
import { inOrder, verdictOf } from "../../../../web/static/new_voice/doctor.js";
import { remarks } from "../../../../web/static/new_voice/transcript.js";
import { useWords, words } from "../../../../web/static/ui/words.js";

useWords(english("clip"));

const row = (light, message) => ({ light, message });

test("the worst rows come first, and green rows are left out", () => {
  const rows = [row("green", "a"), row("amber", "b"), row("red", "c"), row("amber", "d")];
  assert.deepEqual(inOrder(rows).map(({ message }) => message), ["c", "b", "d"]);
});

test("wrong words lower the verdict, and the worse of the two is shown", () => {
  const found = (light) => ({ light, verdict: `${light} sound` });
  const [amber, red] = [row("amber", "too many"), row("red", "far too many")];
  assert.deepEqual(verdictOf(found("green"), []), { light: "green", message: "green sound" });
  assert.deepEqual(verdictOf(found("green"), [amber]), { light: "amber", message: words("clip.look_at_words") });
  assert.deepEqual(verdictOf(found("green"), [amber, red]).light, "red");
  assert.deepEqual(verdictOf(found("red"), [amber]), { light: "red", message: "red sound" });
  assert.deepEqual(verdictOf(null, [amber]), { light: "", message: words("clip.examining") });
  assert.deepEqual(verdictOf({ problem: "No answer." }, [amber]), { light: "", message: "No answer." });
});

test("implausible words get a remark", () => {
  const clip = new Clip({ path: "a", name: "a", seconds: 10, words: "Ten seconds of words." });
  clip.find({ part: clip.part, speech_seconds: 9 });
  clip.wordsRow = row("green", "fits");
  assert.deepEqual(remarks(clip), []);
  clip.trim.move("start", 5);
  clip.find({ part: clip.part, speech_seconds: 4 });
  clip.wordsRow = row("amber", "too many");
  assert.deepEqual(remarks(clip).map(({ light, message }) => [light, message]), [
    ["amber", words("clip.moved")],
    ["amber", "too many"],
  ]);
  clip.write("Half of them.");
  clip.wordsRow = row("red", "far too few");
  assert.deepEqual(remarks(clip).map(({ message }) => message), ["far too few"]);
  clip.write("");
  assert.deepEqual(remarks(clip), [], "an empty field gets no remark");
});
