// Trimming a clip, and the list of clips.

import assert from "node:assert/strict";
import { test } from "node:test";

import { seeded } from "../helpers.js";
import { Clip, Clips } from "../../../../web/static/new_voice/clips/clips.js";
import { keyStep, Trim } from "../../../../web/static/new_voice/clips/trim.js";

const key = (name, shiftKey = false) => keyStep({ key: name, shiftKey });

test("key steps are 10 ms, 100 ms with shift, and 1 s with the page keys", () => {
  assert.deepEqual([key("ArrowRight"), key("ArrowLeft"), key("ArrowUp"), key("ArrowDown")], [0.01, -0.01, 0.01, -0.01]);
  assert.deepEqual([key("ArrowRight", true), key("ArrowLeft", true)], [0.1, -0.1]);
  assert.deepEqual([key("PageUp"), key("PageDown"), key("Home"), key("End")], [1, -1, -Infinity, Infinity]);
  assert.equal(key("a"), null);
});

test("an end moves and stops at its bounds", () => {
  const trim = new Trim(5);
  assert.ok(trim.whole);
  trim.nudge("start", 0.01);
  trim.nudge("end", -1);
  assert.deepEqual([trim.start, trim.end], [0.01, 4]);
  trim.nudge("start", Infinity);
  assert.deepEqual([trim.start, trim.end], [3.9, 4]);
  trim.nudge("end", -Infinity);
  assert.deepEqual([trim.start, trim.end], [3.9, 4]);
  trim.nudge("start", -Infinity);
  trim.nudge("end", Infinity);
  assert.ok(trim.whole);
});

test("random moves never cross the ends or leave the clip", () => {
  const random = seeded(11);
  for (let round = 0; round < 200; round++) {
    const seconds = 0.02 + random() * 20;
    assert.ok(new Trim(seconds).whole, `all of ${seconds}`);
    const trim = new Trim(seconds, random() * 30 - 5, random() * 30 - 5);
    for (let i = 0; i < 20; i++) {
      assert.ok(trim.start >= 0 && trim.end <= seconds, `${trim.start} to ${trim.end} of ${seconds}`);
      assert.ok(trim.length >= Math.min(0.1, seconds) - 1e-9);
      trim.move(random() < 0.5 ? "start" : "end", random() * 30 - 5);
    }
  }
});

test("a press takes the closer end", () => {
  const trim = new Trim(10, 2, 6);
  assert.deepEqual([0, 3.9, 4.1, 9].map((time) => trim.nearest(time)), ["start", "start", "end", "end"]);
});

test("ends are compared within the doctor's rounding", () => {
  const trim = new Trim(10, 2, 6);
  assert.ok(trim.is(2.004, 5.996));
  assert.ok(!trim.is(2, 6.02));
});

const clip = (path, seconds = 5) => new Clip({ path, name: path, seconds });

test("the value has the selection of each clip and the chosen clip", () => {
  const clips = new Clips();
  assert.equal(clips.value(), null);
  clips.add(clip("a"));
  clips.add(clip("b"));
  clips.list[0].trim.move("start", 1);
  clips.chosen = clips.list[0];
  assert.deepEqual(clips.value(), {
    chosen: 0,
    clips: [
      { path: "a", name: "a", seconds: 5, words: "", start: 1, end: 5 },
      { path: "b", name: "b", seconds: 5, words: "", start: 0, end: 5 },
    ],
  });
});

test("a clip of unknown length is sent whole", () => {
  const { value, length } = clip("a", null);
  assert.deepEqual([value, length], [{ path: "a", name: "a", seconds: null, words: "", start: 0, end: null }, 0]);
});

test("recordings are numbered, also after one was removed", () => {
  const clips = new Clips();
  clips.add(clip(`${clips.nextNumber()}`));
  clips.remove(clips.list[0]);
  assert.equal(clips.nextNumber(), 2);
});

test("paths include the files from before repairs", () => {
  const clips = new Clips();
  assert.deepEqual(clips.paths, []);
  const [raw, level, repaired] = ["raw", "level", "repaired"].map((name) => clip(name));
  Object.assign(repaired, { before: level });
  Object.assign(level, { before: raw });
  clips.add(repaired);
  clips.add(clip("b"));
  assert.deepEqual(clips.paths, ["repaired", "level", "raw", "b"]);
});

test("a clip recorded again replaces the old one in place", () => {
  const clips = new Clips();
  const [a, b, again] = ["a", "b", "again"].map((name) => clip(name));
  clips.add(a);
  clips.add(b);
  clips.add(again, a);
  assert.deepEqual(clips.list, [again, b]);
  assert.equal(clips.chosen, again);
});

test("removing the chosen clip chooses its neighbour", () => {
  const clips = new Clips();
  const [a, b, c] = ["a", "b", "c"].map((name) => clip(name));
  [a, b, c].forEach((each) => clips.add(each));
  clips.chosen = b;
  clips.remove(b);
  assert.equal(clips.chosen, c);
  clips.remove(c);
  assert.equal(clips.chosen, a);
  clips.remove(a);
  assert.deepEqual([clips.chosen, clips.value()], [null, null]);
});

test("the server can move ends, choose a clip, and remove clips", () => {
  const clips = new Clips();
  const [a, b] = [clip("a"), clip("b")];
  clips.add(a);
  clips.add(b);
  const value = clips.value();
  Object.assign(value.clips[0], { start: 1, end: 3.5 });
  value.chosen = 0;
  clips.accept(value);
  assert.deepEqual([a.trim.start, a.trim.end, clips.chosen], [1, 3.5, a]);
  assert.deepEqual(clips.accept({ chosen: 0, clips: [value.clips[1]] }), [a]);
  assert.deepEqual(clips.list, [b]);
  assert.deepEqual([clips.accept({ chosen: 1, clips: [value.clips[1]] }), clips.chosen], [[], b], "another clip than the chosen one stays");
  assert.deepEqual(clips.accept(null), [b]);
  assert.deepEqual([clips.list, clips.chosen], [[], null]);
});

test("clips that fit into a voice are used in order, the first one always", () => {
  const clips = new Clips(28);
  const [a, b, c, d] = [20, 9, 8, 0.5].map((seconds, i) => clip(`${i}`, seconds));
  [a, b, c, d].forEach((each) => clips.add(each));
  assert.deepEqual(clips.leftOut, [b, d]);
  b.trim.move("end", 2);
  assert.deepEqual(clips.leftOut, [c]);
  const one = new Clips(28);
  one.add(clip("long", 60));
  assert.deepEqual(one.leftOut, []);
  one.add(new Clip({ path: "x", name: "x", seconds: null }));
  assert.equal(one.leftOut.length, 1);
  assert.deepEqual(new Clips(28).leftOut, []);
});

const find = (each, seconds) => each.find({ part: each.part, speech_seconds: seconds });

test("words no longer match when trimming changes the amount of speech", () => {
  const read = new Clip({ path: "a", name: "a", seconds: 12, words: "From the script." });
  find(read, 10);
  assert.ok(!read.moved);
  read.trim.move("end", 6);
  assert.ok(!read.moved, "the new selection is not examined yet");
  assert.equal(read.speechSeconds, null);
  find(read, 5);
  assert.ok(read.moved);
  read.write("From the");
  assert.ok(!read.moved, "edited words count as checked");
  read.trim.move("end", 6.1);
  find(read, 5.05);
  assert.ok(!read.moved, "a small change is ignored");
  read.trim.move("end", 6.5);
  find(read, 5.35);
  assert.ok(read.moved, "a word is not");
  read.trim.set(0, 12);
  find(read, 10);
  assert.ok(read.moved);
});

test("words written before the examination belong to its result", () => {
  const each = clip("a");
  each.write("Soon.");
  find(each, 3);
  assert.deepEqual([each.wordsSpoken, each.moved], [3, false]);
  each.write("  ");
  assert.equal(each.wordsSpoken, null);
  each.trim.move("end", 1);
  find(each, 1);
  assert.ok(!each.moved, "without words there is nothing to check");
});

test("files that the server has lost are sent again, whatever becomes of one", async () => {
  const clips = new Clips();
  const [a, before] = [clip("a"), clip("before")];
  const [b, c] = [new Clip({ path: "b", name: "b", file: "b", seconds: 4, before }), clip("c")];
  Object.assign(a, { file: "a" });
  Object.assign(before, { file: "before" });
  Object.assign(c, { file: "c" });
  [a, b, c].forEach((each) => clips.add(each));
  const refused = new Error("no room");
  const send = async (file) => {
    if (file === "b") throw refused;
    return `new ${file}`;
  };
  const { part } = before;
  assert.deepEqual(await clips.uploadAgain(["b", "before"], send), [refused]);
  assert.deepEqual(clips.paths, ["a", "b", "new before", "c"]);
  assert.equal(before.part, part, "it is still the same sound");
  assert.deepEqual(await clips.uploadAgain(clips.paths, send), [refused]);
  assert.deepEqual(clips.paths, ["new a", "b", "new before", "new c"]);
});
