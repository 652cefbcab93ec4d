// One opening of the microphone, from the countdown to the end of the recording.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Capture } from "../../../../web/static/new_voice/capture/capture.js";

const RATE = 8; // samples a second
const LONGEST = 3; // seconds

// A capture over a microphone that the test drives. `pass` lets a second of the countdown go by.
function capturing() {
  const made = { ticks: [], waiting: [], heard: 0, closed: 0 };
  const microphone = { rate: RATE, close: async () => (made.closed += 1) };
  made.capture = new Capture(LONGEST, () => (made.heard += 1), async (hear, gone) => {
    Object.assign(made, { hear: (seconds) => hear(new Float32Array(seconds * RATE)), gone });
    return microphone;
  });
  made.count = () => made.capture.countDown((left) => made.ticks.push(left), (done) => made.waiting.push(done));
  made.pass = () => made.waiting.shift()();
  return made;
}

// Runs a countdown to its end and begins a recording. Resolves to it when it has begun.
async function recording() {
  const made = capturing();
  await made.capture.open();
  const counted = made.count();
  for (let second = 0; second < 3; second++) made.pass();
  assert.ok(await counted);
  made.ended = made.capture.record();
  return made;
}

test("what is heard before the recording moves the meter only", async () => {
  const { capture, ticks, hear, ended, ...made } = await recording();
  assert.deepEqual([ticks, capture.recording.length], [[3, 2, 1], 0]);
  hear(1);
  hear(0.5);
  capture.end("stopped");
  await ended;
  assert.deepEqual([capture.recording.seconds, capture.ending, made.closed], [1.5, "stopped", 0]);
  const early = capturing();
  await early.capture.open();
  early.hear(1);
  assert.deepEqual([early.heard, early.capture.recording], [1, null]);
});

test("the microphone's last samples belong to the recording", async () => {
  const { capture, hear, ended } = await recording();
  hear(1);
  capture.end("stopped");
  await ended;
  hear(0.5);
  await capture.close();
  assert.equal(capture.recording.seconds, 1.5);
});

test("a recording ends when it is full, and a later end does not change why", async () => {
  const { capture, hear, gone, ended } = await recording();
  let over = false;
  ended.then(() => (over = true));
  hear(2);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([over, capture.ending], [false, ""]);
  hear(2);
  gone();
  capture.end("stopped");
  await ended;
  assert.deepEqual([capture.recording.seconds, capture.ending], [LONGEST, "full"]);
});

test("a recording ends when the microphone is lost", async () => {
  const { capture, hear, gone, ended } = await recording();
  hear(1);
  gone();
  await ended;
  assert.deepEqual([capture.recording.seconds, capture.ending], [1, "lost"]);
});

test("nothing is recorded if the countdown is ended, by the user or by a loss", async () => {
  for (const ending of ["stopped", "lost"]) {
    const made = capturing();
    await made.capture.open();
    const counted = made.count();
    made.pass();
    if (ending === "lost") made.gone();
    else made.capture.end("stopped");
    made.pass();
    assert.equal(await counted, false);
    assert.deepEqual([made.capture.ending, made.capture.recording, made.ticks], [ending, null, [3, 2]]);
    await made.capture.close();
    assert.equal(made.closed, 1);
  }
});

test("Escape while the browser asks for the microphone has no effect", async () => {
  const made = capturing();
  const opened = made.capture.open();
  made.capture.end("stopped");
  await opened;
  const counted = made.count();
  for (let second = 0; second < 3; second++) made.pass();
  assert.deepEqual([await counted, made.capture.ending], [true, ""]);
});

test("a refused microphone is the caller's to report", async () => {
  const refused = new Error("NotAllowedError");
  await assert.rejects(new Capture(LONGEST, () => {}, () => Promise.reject(refused)).open(), refused);
});
