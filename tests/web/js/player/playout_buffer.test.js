// The player's buffer, as run by the audio thread.

import assert from "node:assert/strict";
import { test } from "node:test";

import { heard, largestStep, ramp, seeded, whole } from "../helpers.js";
import { PlayoutBuffer } from "../../../../web/static/player/playout/playout_buffer.js";

const RATE = 1000;

test("playback starts with the first chunk and returns its samples", () => {
  const take = new PlayoutBuffer(RATE);
  take.write(0, ramp(1000, 100), 0);
  const out = whole(heard(take, 100));
  assert.deepEqual(out.slice(10), Array.from(ramp(1010, 90)), "after a fade of 5 ms, the samples themselves");
  assert.deepEqual([...out.slice(0, 10)].sort((a, b) => a - b), out.slice(0, 10));
});

test("a first chunk that is too short waits for the next", () => {
  const take = new PlayoutBuffer(RATE);
  take.write(0, ramp(0, 20), 0);
  heard(take, 10);
  assert.deepEqual([take.played, take.waiting, take.underruns], [0, true, 0]);
});

test("a take shorter than the lead plays when it is complete", () => {
  const take = new PlayoutBuffer(RATE);
  take.write(0, ramp(1000, 20), 0);
  take.finish();
  assert.equal(whole(heard(take, 20))[19], 1019);
});

test("unplayed samples are replaced when a segment is repeated", () => {
  const take = new PlayoutBuffer(RATE);
  take.write(0, ramp(1000, 100), 0);
  take.write(100, ramp(2000, 100), 0);
  heard(take, 100);
  take.write(100, ramp(5000, 50), 0);
  take.finish();
  assert.deepEqual(whole(heard(take, 50)), Array.from(ramp(5000, 50)));
  assert.equal(take.length, 150);
});

test("a repeated segment that was half played is played from its start", () => {
  const take = new PlayoutBuffer(RATE);
  take.write(0, ramp(1000, 200), 0);
  heard(take, 150);
  take.write(100, ramp(5000, 100), 0);
  assert.equal(take.position, 100);
  assert.deepEqual(whole(heard(take, 80)).slice(60), Array.from(ramp(5060, 20)));
  assert.equal(take.played, 230);
});

test("an underrun is counted, and playback waits for a larger lead", () => {
  const take = new PlayoutBuffer(RATE);
  const state = () => [take.underruns, take.waiting];
  take.write(0, ramp(1000, 100), 0);
  heard(take, 150);
  assert.deepEqual(state(), [1, true]);
  take.write(100, ramp(1100, 100), 0.1);
  heard(take, 10);
  assert.deepEqual(state(), [1, true], "a tenth of a second would only underrun again");
  take.write(200, ramp(1200, 400), 0.2);
  heard(take, 10);
  assert.deepEqual(state(), [1, false]);
  assert.equal(take.starved, 60, "the silence between the two");
});

test("running out after the last sample is no underrun, and a pause is no stall", () => {
  const take = new PlayoutBuffer(RATE);
  take.write(0, ramp(1000, 100), 0);
  heard(take, 150);
  assert.deepEqual([take.underruns, take.starved], [1, 50]);
  take.finish();
  assert.deepEqual([take.underruns, take.starved], [0, 0]);
  const paused = new PlayoutBuffer(RATE);
  paused.write(0, ramp(1000, 100), 0);
  heard(paused, 120);
  paused.pause();
  heard(paused, 500);
  assert.deepEqual([paused.underruns, paused.starved], [1, 20]);
});

test("a take ends with its last sample and without an underrun, and play restarts it", () => {
  const take = new PlayoutBuffer(RATE);
  take.write(0, ramp(1000, 100), 0);
  take.finish();
  assert.equal(whole(heard(take, 200))[99], 1099);
  assert.deepEqual([take.underruns, take.ended, take.wanted], [0, true, false]);
  take.play();
  heard(take, 10);
  assert.equal(take.position, 10);
});

test("a take that is paused and moved before it was heard begins in silence", () => {
  const take = new PlayoutBuffer(RATE);
  take.pause();
  take.write(0, ramp(1000, 500), 0);
  take.seek(100);
  assert.ok(heard(take, 10).every((value) => value === 0));
});

test("a paused take stays at its position", () => {
  const take = new PlayoutBuffer(RATE);
  take.write(0, ramp(1000, 500), 0);
  heard(take, 100);
  take.pause();
  assert.deepEqual([whole(heard(take, 50))[49], take.position, take.played], [0, 100, 100]);
  take.play();
  assert.equal(whole(heard(take, 50))[49], 1149);
});

test("a seek between loud samples does not click", () => {
  const take = new PlayoutBuffer(RATE);
  take.write(0, new Int16Array(200).fill(30000), 0);
  take.write(200, new Int16Array(200).fill(-30000), 0);
  const before = heard(take, 100);
  take.seek(300);
  const out = [...before, ...heard(take, 50)];
  assert.ok(largestStep(out) < 0.4, "not at once by 1.8");
  assert.equal(whole(out).at(-1), -30000);
});

test("pause, play, seek, a change of take and the end fade without clicks", () => {
  const loud = (count) => new Int16Array(count).fill(30000);
  const take = new PlayoutBuffer(RATE);
  take.write(0, loud(500), 0);
  const parts = [heard(take, 300)];
  take.pause();
  parts.push(heard(take, 100));
  take.play();
  parts.push(heard(take, 100));
  take.seek(50);
  parts.push(heard(take, 100));
  const other = new PlayoutBuffer(RATE);
  other.follow(take);
  other.write(0, loud(200), 0);
  parts.push(heard(other, 400));
  const all = parts.flatMap((part) => Array.from(part));
  assert.ok(largestStep(all) < 0.25, "at 1,000 Hz a fade of 5 ms is five steps");
  assert.ok(Math.max(...all.map(Math.abs)) < 1);
  assert.equal(all.at(-1), 0);
});

for (const pace of [0.5, 0.8]) {
  test(`an engine that makes ${pace} s per second gets a head start and never underruns`, () => {
    const total = 6000;
    const take = new PlayoutBuffer(RATE, { expected: 6, pace });
    let made = 0;
    let waited = 0;
    for (let time = 0; time < 30000 && !take.ended; time += 10) {
      const ready = Math.min(total, Math.floor(time * pace));
      if (ready - made >= 100 || ready === total) {
        if (ready > made) take.write(made, ramp(0, ready - made), time / 1000);
        made = ready;
        if (made === total) take.finish();
      }
      heard(take, 10);
      if (!take.played) waited = time;
    }
    assert.ok(take.ended);
    assert.equal(take.underruns, 0);
    assert.ok(waited < total / pace, "it does not wait for the whole take");
  });
}

test("the pace of the engine is measured from the first chunk on, and decides the lead", () => {
  const take = new PlayoutBuffer(RATE, { expected: 3 });
  take.write(0, ramp(0, 200), 10);
  take.write(200, ramp(200, 100), 10);
  assert.equal(take.pace, Infinity);
  take.write(300, ramp(300, 100), 10.8);
  assert.ok(Math.abs(take.pace - 0.25) < 1e-9);
  assert.ok(Math.abs(take.lead() - 8780) < 1e-6, "2.6 seconds are to come, of which each takes four");
  take.setSpeed(2);
  assert.equal(take.lead(), 10_000, "no longer than ten seconds");
});

test("a fast engine gets the minimum lead", () => {
  assert.ok(Math.abs(new PlayoutBuffer(RATE, { expected: 60, pace: 3 }).lead() - 40) < 1e-9);
});

test("another output rate keeps pitch and length", () => {
  const take = new PlayoutBuffer(RATE);
  const tone = Int16Array.from({ length: 1000 }, (_, i) => 20000 * Math.sin((2 * Math.PI * 50 * i) / 1000));
  take.write(0, tone, 0);
  take.finish();
  const out = heard(take, 3000, 1000 / 2500);
  const crossings = out.slice(1).filter((value, i) => out[i] < 0 && value >= 0).length;
  assert.ok(Math.abs(take.position - 1000) <= 1);
  assert.ok(Math.abs(crossings - 50) <= 1);
});

test("at another output rate, the last sample does not fade into what was taken back", () => {
  const take = new PlayoutBuffer(RATE);
  take.write(0, new Int16Array(100).fill(30000), 0);
  take.write(50, new Int16Array(10).fill(1000), 0);
  take.finish();
  assert.deepEqual(whole(heard(take, 120, 0.5)).slice(110), Array(10).fill(1000));
});

test("a lost chunk leaves silence and is counted", () => {
  const take = new PlayoutBuffer(RATE);
  take.write(0, ramp(1000, 100), 0);
  take.write(150, ramp(1150, 50), 0);
  assert.deepEqual([take.lost, take.length], [50, 200]);
  assert.ok(take.samples.slice(100, 150).every((value) => value === 0));
});

test("the take plays unchanged with any chunk sizes", () => {
  const random = seeded(5);
  for (let round = 0; round < 50; round++) {
    const total = 200 + Math.floor(random() * 2000);
    const take = new PlayoutBuffer(RATE);
    let made = 0;
    const out = [];
    while (made < total) {
      const count = Math.min(total - made, 1 + Math.floor(random() * 300));
      take.write(made, ramp(made, count), 0);
      made += count;
      const inHand = take.length - take.position;
      if (inHand > take.lead()) out.push(...heard(take, Math.floor(random() * inHand)));
    }
    take.finish();
    out.push(...heard(take, total));
    assert.equal(take.underruns, 0);
    assert.deepEqual(whole(out).slice(10, total), Array.from(ramp(10, total - 10)), `round ${round}`);
  }
});
