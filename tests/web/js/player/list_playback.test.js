// Stored sounds that are requested from lists, with sources and a clock that are driven by the test.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english, ramp } from "../helpers.js";
import { ListPlayback } from "../../../../web/static/player/list_playback.js";
import { Playback } from "../../../../web/static/player/playback.js";
import { Sound, SoundCache } from "../../../../web/static/player/sound_cache.js";
import { encodeWav } from "../../../../web/static/sound/wav.js";
import { useWords } from "../../../../web/static/ui/words.js";

const TEXTS = english("player");
useWords(TEXTS);

const RATE = 1000;
const samples = ramp(0, 1000);

// told: the list's events. calls: to the output. report(at): the output's report of its state.
function setUp(...cached) {
  const [told, calls] = [[], []];
  let hear;
  const open = async (_rate, report) => {
    hear = report;
    return { context: { resume() {}, suspend() {} }, output: { call: (method) => calls.push(method) } };
  };
  const playback = new Playback(open, () => {}, () => {});
  const cache = new SoundCache();
  for (const id of cached) cache.put(Sound.whole(id, { rate: RATE, samples }));
  const list = new ListPlayback({ playback, cache, rate: RATE, tell: (...event) => told.push(event) });
  const report = async (at) => {
    await playback.opening;
    hear({ wanted: true, waiting: false, ended: false, played: 1, underruns: 0, starved: 0, received: playback.sent, ...at });
  };
  return { list, playback, cache, told, calls, report };
}

// A source that arrives when the test says so.
function promised() {
  const answer = {};
  answer.source = new Promise((resolve, reject) => Object.assign(answer, { resolve, reject }));
  return answer;
}

// What is loaded, at which share, and whether it plays.
const loaded = ({ sound, place, wanted }) => [sound?.id ?? null, place, wanted];

const sources = {
  samples,
  "samples with their rate": { rate: RATE, samples },
  "a promise": Promise.resolve(samples),
  "the address of a WAV": `data:audio/wav;base64,${Buffer.from(encodeWav(samples, RATE)).toString("base64")}`,
  "a function": async () => ({ wav: samples, facts: { seed: 7 } }),
};
for (const [name, source] of Object.entries(sources)) {
  test(`a sound is played from ${name}, with its facts, and is then cached`, async () => {
    const { list, playback, cache, told } = setUp();
    assert.equal(await list.play("a", source, { status: "A clip", name: "a.wav" }), true);
    assert.deepEqual([loaded(playback), told], [["a", 0, true], [["done"]]]);
    assert.deepEqual([[...playback.sound.all()], playback.sound.rate, playback.sound.complete], [[...samples], RATE, true]);
    const facts = { name: "a.wav", ...(name === "a function" && { seed: 7 }) };
    assert.deepEqual([cache.get("a"), playback.sound.facts, playback.sound.status], [playback.sound, facts, "A clip"]);
    assert.equal(playback.sound.wav.name, "a.wav");
  });
}

test("a cached sound needs no source, gets new facts, and resumes where it was paused", async () => {
  const { list, playback, report } = setUp("a");
  await list.toggle("a", null, { seed: 7 });
  await report({ position: 400 });
  assert.equal(await list.toggle("a"), true, "it was not refused");
  assert.deepEqual([loaded(playback), playback.playing], [["a", 0.4, false], null]);
  await list.toggle("a", null, { model: "S2" });
  assert.deepEqual([loaded(playback), playback.playing], [["a", 0.4, true], "a"]);
  assert.deepEqual(playback.sound.facts, { seed: 7, model: "S2" });
});

const unplayable = {
  "that is gone": [async () => null, TEXTS["player.gone"]],
  "without a source": [undefined, TEXTS["player.gone"]],
  "whose file is no WAV": ["data:audio/wav,nothing", TEXTS["player.no_wav"]],
};
for (const [name, [source, reason]] of Object.entries(unplayable)) {
  test(`a sound ${name} is not played, and the page says why`, async () => {
    const { list, playback, told } = setUp();
    assert.equal(await list.play("a", source), false);
    assert.deepEqual([loaded(playback), told], [[null, 0, false], [["failed", reason]]]);
  });
}

test("the output is opened in the user gesture, before a sound has arrived", () => {
  const { list, playback } = setUp();
  list.play("a", promised().source);
  assert.ok(playback.opening);
});

test("nothing is said about a sound if its list has told why there is none", async () => {
  const { list, playback, told } = setUp();
  assert.equal(await list.play("a", async () => undefined), false);
  assert.deepEqual([loaded(playback), told], [[null, 0, false], [["done"]]]);
});

test("only the sound that was requested last is played, whatever arrives first", async () => {
  const { list, playback, told } = setUp();
  const [first, failing] = [promised(), promised()];
  const played = [list.play("a", first.source), list.play("b", failing.source), list.play("c", samples)];
  assert.equal(await played[2], true);
  first.resolve(samples);
  failing.reject(new Error("unreachable"));
  assert.deepEqual(await Promise.all(played), [false, false, true]);
  assert.deepEqual([loaded(playback), told], [["c", 0, true], [["done"]]]);
});

test("a sound that is dropped while it is fetched is cached but not played", async () => {
  const { list, playback, cache, told } = setUp();
  const { source, resolve } = promised();
  const played = list.play("a", source);
  list.drop();
  resolve(samples);
  assert.equal(await played, false);
  assert.deepEqual([loaded(playback), told, cache.get("a").length], [[null, 0, false], [], 1000]);
});

test("a sound that is fetched for long is announced, unless it has come or is no longer wanted", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { list, told } = setUp("known");
  const wait = () => context.mock.timers.tick(1000);
  await list.play("known");
  wait();
  assert.deepEqual(told.splice(0), [["done"]]);
  list.play("a", promised().source);
  wait();
  assert.deepEqual(told.splice(0), [["late"]]);
  list.play("b", promised().source);
  list.drop();
  wait();
  assert.deepEqual(told, []);
});

test("two takes are compared at the same share of their length", async () => {
  const { list, playback, told, report } = setUp("a", "other");
  const pair = ["a", ["b", ramp(0, 500), { seed: 7 }]];
  await list.play("other");
  await report({ position: 300 });
  assert.equal(await list.compare(...pair), "a");
  assert.deepEqual([loaded(playback), told], [["a", 0, true], [["done"], ["done"]]]);
  await report({ position: 400 });
  assert.equal(await list.compare(...pair), "b");
  assert.deepEqual([loaded(playback), playback.sound.facts], [["b", 0.4, true], { seed: 7 }]);
  await report({ position: 500, ended: true, wanted: false });
  assert.equal(await list.compare(...pair), "a");
  assert.deepEqual(loaded(playback), ["a", 0, true], "from the beginning after an end");
  assert.equal(await list.compare("a", "gone"), null);
  assert.deepEqual(loaded(playback), ["a", 0, true]);
});

test("a take plays on from the position of another take of its text only", async () => {
  const { list, playback, told, calls, report } = setUp("a", "b", "other");
  const switchTo = (id) => list.switchTo([id], ["a", "b"]);
  await list.play("other");
  await report({ position: 400 });
  await switchTo("a");
  assert.deepEqual(loaded(playback), ["a", 0, true]);
  await report({ position: 400 });
  await switchTo("b");
  assert.deepEqual(loaded(playback), ["b", 0.4, true]);
  await switchTo("b");
  assert.deepEqual(loaded(playback), ["b", 0.4, false]);
  calls.length = told.length = 0;
  await switchTo("b");
  assert.deepEqual([loaded(playback), told], [["b", 0.4, true], [["done"]]]);
  await playback.opening;
  assert.deepEqual(calls, ["play"], "it is resumed, not loaded again");
  await switchTo("gone");
  assert.deepEqual(loaded(playback), ["b", 0.4, true]);
  await report({ position: 1000, ended: true, wanted: false });
  await switchTo("a");
  assert.deepEqual(loaded(playback), ["a", 0, true], "from the beginning after an end");
});
