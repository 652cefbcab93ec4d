// Examining clips and their transcripts, over a server that the test answers for.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { ClipExaminer } from "../../../../web/static/new_voice/clips/clip_examiner.js";
import { Clip } from "../../../../web/static/new_voice/clips/clips.js";

let asked; // questions without an answer: { name, value, answer }
let told; // what the examiner has reported
let recogniser;
let examiner;
let clip;

beforeEach(() => {
  [asked, told, recogniser] = [[], [], undefined];
  const ask = (name, value) => new Promise((answer) => asked.push({ name, value, answer }));
  const note = (what) => () => told.push(what);
  examiner = new ClipExaminer({
    server: { ask },
    recogniser: () => recogniser,
    examined: note("examined"),
    changed: note("changed"),
    transcribed: note("transcribed"),
  });
  clip = new Clip({ path: "/a", name: "a", seconds: 10 });
});

// Answers the oldest question, and lets the examiner go on.
async function answer(name, value) {
  assert.equal(asked[0]?.name, name);
  asked.shift().answer(value);
  await new Promise((resolve) => setTimeout(resolve));
}

test("a part is examined once", async () => {
  examiner.examine(clip);
  examiner.examine(clip);
  assert.equal(asked.length, 1);
  await answer("examine_clip", { speech_seconds: 4, best: [1, 9] });
  examiner.examine(clip);
  assert.deepEqual([asked.length, clip.speechSeconds, clip.best], [0, 4, [1, 9]]);
  assert.deepEqual(told, ["examined", "changed"]);
});

test("a part that was moved meanwhile is examined again, and its best part is that of the whole file", async () => {
  clip.trim.move("end", 8);
  examiner.examine(clip);
  clip.trim.move("end", 5);
  await answer("examine_clip", { speech_seconds: 4, best: [1, 7] });
  assert.deepEqual([told, clip.found], [[], null]);
  assert.equal(asked[0].value.end, 5);
  await answer("examine_clip", { speech_seconds: 2, best: [1, 4] });
  assert.deepEqual([clip.speechSeconds, clip.best], [2, null]);
  clip.trim.set(0, 10);
  examiner.examine(clip);
  await answer("examine_clip", { speech_seconds: 6, best: [1, 9] });
  assert.deepEqual(clip.best, [1, 9]);
});

test("the transcript of an examined part is checked", async () => {
  clip.words = "Once upon a time.";
  examiner.examine(clip);
  await answer("examine_clip", { speech_seconds: 4 });
  assert.deepEqual(asked[0].value, { words: "Once upon a time.", speech_seconds: 4 });
  await answer("check_words", { row: { light: "red" } });
  assert.deepEqual([clip.wordsRow, told], [{ light: "red" }, ["examined", "changed"]]);
});

test("the check of a transcript or part that has changed is not used", async () => {
  clip.words = "Once.";
  clip.find({ part: clip.part, speech_seconds: 4 });
  for (const change of [() => clip.write("Twice."), () => clip.trim.move("end", 5)]) {
    examiner.checkTranscript(clip);
    change();
    await answer("check_words", { row: { light: "red" } });
  }
  assert.deepEqual([clip.wordsRow, told], [null, []]);
});

test("a part without a transcript is transcribed if there is a recogniser and speech", async () => {
  recogniser = { ready: false };
  for (const [ready, seconds, written] of [[true, 4, true], [false, 4, false], [true, 0, false]]) {
    recogniser.ready = ready;
    clip = new Clip({ path: "/a", name: "a", seconds: 10 });
    examiner.examine(clip);
    await answer("examine_clip", { speech_seconds: seconds });
    if (written) await answer("write_words", { words: "Heard." });
    if (written) await answer("check_words", {});
    assert.deepEqual([clip.words, clip.dictated, asked.length], [written ? "Heard." : "", written, 0]);
  }
  assert.ok(told.includes("transcribed"));
});

test("only a transcript that was not edited is written again when the ends have moved", async () => {
  recogniser = { ready: true };
  clip.find({ part: clip.part, speech_seconds: 8 });
  for (const dictated of [true, false]) {
    clip.trim.set(0, 10);
    clip.find({ part: clip.part, speech_seconds: 8 });
    clip.write("Of all.");
    clip.dictated = dictated;
    clip.trim.move("end", 5);
    examiner.examine(clip);
    await answer("examine_clip", { speech_seconds: 4 });
    assert.deepEqual(asked.map(({ name }) => name), [dictated ? "write_words" : "check_words"]);
    await answer(asked[0].name, { words: "Of half." });
    assert.equal(clip.words, dictated ? "Of half." : "Of all.");
    asked.length = 0;
  }
});

test("the transcript of a part that was moved meanwhile is not used", async () => {
  examiner.transcribe(clip);
  clip.trim.move("end", 5);
  await answer("write_words", { words: "Heard." });
  assert.deepEqual([clip.words, told.includes("transcribed")], ["", false]);
});

test("what the user writes meanwhile stays, and a part is transcribed once at a time", async () => {
  examiner.transcribe(clip);
  examiner.transcribe(clip);
  assert.deepEqual([asked.length, clip.dictating], [1, true]);
  clip.write("Mine.");
  await answer("write_words", { words: "Heard." });
  assert.deepEqual([clip.words, clip.dictating, clip.dictated, told.includes("transcribed")], ["Mine.", false, false, false]);
});

test("a failure is shown only if the user has asked, until the user asks again", async () => {
  recogniser = { ready: true };
  examiner.examine(clip);
  await answer("examine_clip", { speech_seconds: 4 });
  await answer("write_words", { problem: "No model." });
  assert.equal(clip.undictated, "");
  examiner.transcribe(clip);
  await answer("write_words", { problem: "No model." });
  assert.equal(clip.undictated, "No model.");
  examiner.transcribe(clip);
  assert.equal(clip.undictated, "");
  await answer("write_words", { problem: "No model." });
  clip.write("Mine.");
  assert.equal(clip.undictated, "", "or writes it");
});
