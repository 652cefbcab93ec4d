// The messages of a take, and its other ends, with a playback whose output is driven by the test.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english, ramp } from "../helpers.js";
import { LiveTake } from "../../../../web/static/player/live_take.js";
import { Playback } from "../../../../web/static/player/playback.js";
import { Sound, SoundCache } from "../../../../web/static/player/sound_cache.js";
import { encodeWav } from "../../../../web/static/sound/wav.js";
import { useWords } from "../../../../web/static/ui/words.js";

const TEXTS = english("player");
useWords(TEXTS);

const RATE = 1000;
const pcm = (count) => Buffer.from(ramp(0, count).buffer).toString("base64");
// The server has WAVs of the number of samples in their address.
globalThis.fetch = async (url) => (url > 0 ? new Response(encodeWav(ramp(0, Number(url)), RATE)) : new Response(null, { status: 404 }));

// A take after a former sound. said: its sentences with their states; told: its events. send(kind, message): its next message.
// report(at): the output's report of its state. refilled(): resolves when the WAV that replaces its sound has come, or has not.
function setUp({ ticket = "ticket", wanted = true } = {}) {
  const [said, told] = [[], []];
  const context = { currentTime: 2, resume() {}, suspend() {} };
  let hear;
  const open = async (_rate, report) => {
    hear = report;
    return { context, output: { kind: "worklet", call() {} } };
  };
  const playback = new Playback(open, (event) => event === "moved" && take?.measure(), () => {});
  const cache = new SoundCache();
  const former = cache.put(Sound.whole("former", { rate: RATE, samples: ramp(0, 100) }));
  const say = (...sentence) => said.push(sentence);
  const tell = (...event) => told.push(event);
  const take = new LiveTake({ playback, cache, say, tell }, ticket, { sound: former, place: 0.5, wanted });
  const { refill } = take;
  let refilling = null;
  take.refill = (url) => (refilling = refill.call(take, url));
  let number = 0;
  const send = (kind, message = {}) => take.receive({ number: number++, kind, status: kind, ...message });
  const start = (more) => send("start", { rate: RATE, expected: 2, facts: { text: "Hello there." }, take: "take", ...more });
  const chunk = (count, from = 0, more = {}) => send("chunk", { start: from, pcm: pcm(count), ...more });
  const end = (more) => send("end", { stop_reason: "end", total: 0, wav: null, problem: false, take: null, ...more });
  const report = async (at) => {
    await playback.opening;
    hear({ wanted: true, waiting: false, ended: false, played: 1, underruns: 0, starved: 0, lost: 0, received: playback.sent, ...at });
  };
  return { take, playback, cache, former, said, told, send, start, chunk, end, report, refilled: () => refilling };
}

// What is loaded, at which share, and whether it plays.
const loaded = ({ sound, place, wanted }) => [sound?.id ?? null, place, wanted];

test("a take plays as it arrives and is then known by the id of the stored one", () => {
  const { take, playback, cache, said, told, send, start, chunk, end } = setUp();
  assert.equal(take.busy, true);
  send("wait");
  start();
  assert.deepEqual(loaded(playback), ["ticket", 0, true]);
  assert.equal(take.sound.span, 2, "as long as the server expects");
  chunk(100, 0, { words: [["Hello ", 0, 0.1]] });
  const { firstChunkAt } = take.stats;
  chunk(50, 100, { words: [["there.", 0.1, 0.15]] });
  assert.equal(take.stats.firstChunkAt, firstChunkAt);
  end({ total: 150, take: "take", wav: { name: "Hello.wav", url: "150" }, facts: { seed: 7 } });
  assert.deepEqual(said, [
    ["wait", "waiting"], ["start", "waiting"], ["chunk", "speaking"], ["chunk", "speaking"], ["end", "finished"],
  ]);
  assert.deepEqual(told, [["spoken", { id: "take", ms: null, stalls: { times: 0, seconds: 0 } }]]);
  assert.deepEqual([take.busy, take.stats.refilled, take.stats.chunks, take.stats.received], [false, false, 2, 150]);
  const sound = cache.get("take");
  assert.deepEqual([sound, cache.get("ticket")], [playback.sound, undefined]);
  assert.deepEqual(sound.facts, { text: "Hello there.", words: [["Hello ", 0, 0.1], ["there.", 0.1, 0.15]], ending: "end", seed: 7 });
  assert.deepEqual([[...sound.all()], sound.complete, sound.status], [[...ramp(0, 100), ...ramp(0, 50)], true, "end"]);
});

test("a message that is repeated does nothing", () => {
  const { take, said, start, chunk } = setUp();
  start();
  chunk(100);
  take.receive({ number: 1, kind: "chunk", status: "again", start: 100, pcm: pcm(100) });
  assert.deepEqual([said.length, take.stats.chunks, take.sound.length], [2, 1, 100]);
});

test("a message of words only keeps the state; one that takes audio back is a chunk", () => {
  const { take, said, start, chunk } = setUp();
  start();
  chunk(0, 0, { words: [["Hello.", 0, 0.1]] });
  assert.deepEqual([said.at(-1), take.stats.chunks, take.sound.facts.words.length], [["chunk"], 0, 1]);
  chunk(100);
  chunk(0, 40);
  assert.deepEqual([said.at(-1), take.stats.chunks, take.sound.length], [["chunk", "speaking"], 2, 40]);
});

test("a take is loaded paused after the microphone was opened", () => {
  const { take, playback, start } = setUp();
  take.hushed = true;
  start();
  assert.deepEqual(loaded(playback), ["ticket", 0, false]);
});

const endings = [
  { name: "fails", end: { problem: true }, state: "problem", plays: false },
  { name: "is stopped", end: { stop_reason: "cancelled" }, state: "stopped", plays: false },
  { name: "cannot be spoken", end: { problem: true, unspeakable: true }, state: "problem", plays: true },
  { name: "cannot be spoken that was begun while it was paused", end: { problem: true, unspeakable: true }, wanted: false, state: "problem", plays: false },
  { name: "cannot be spoken while the microphone is open", end: { problem: true, unspeakable: true }, set: { hushed: true }, state: "problem", plays: false },
  { name: "cannot be spoken and was stopped", end: { problem: true, unspeakable: true }, set: { stopping: true }, state: "problem", plays: false },
];
for (const { name, end: message, set = {}, wanted, state, plays } of endings) {
  test(`the former sound is loaded again, ${plays ? "playing" : "paused"}, if a take ${name}`, () => {
    const { take, playback, cache, said, told, start, end } = setUp({ wanted });
    start();
    Object.assign(take, set);
    end(message);
    assert.deepEqual(loaded(playback), ["former", 0.5, plays]);
    assert.deepEqual([said.at(-1), cache.get("ticket"), take.sound], [["end", state], undefined, null]);
    assert.deepEqual(told, message.unspeakable ? [["unspeakable", { ticket: "ticket", reason: "end" }]] : []);
  });
}

test("the former sound is not loaded again instead of one that plays, after it was deleted, or after the take had sound", () => {
  const other = setUp();
  other.start();
  const sound = other.cache.put(Sound.whole("other", { rate: RATE, samples: ramp(0, 100) }));
  other.playback.load(sound);
  other.end({ problem: true });
  assert.deepEqual(loaded(other.playback), ["other", 0, true]);
  const deleted = setUp();
  deleted.start();
  deleted.take.forget("former");
  deleted.end({ problem: true });
  assert.deepEqual(loaded(deleted.playback), [null, 0, false]);
  const begun = setUp();
  begun.start();
  begun.chunk(100);
  begun.end({ stop_reason: "cancelled" }); // all of it was taken back
  assert.deepEqual(loaded(begun.playback), [null, 0, false]);
});

test("the server has to end a take only if it has begun it and not ended it", () => {
  const { take, start, chunk, end } = setUp();
  assert.deepEqual([take.stop(), take.stopping], [false, false]);
  start();
  assert.deepEqual([take.stop(), take.stopping, take.busy], [true, true, true]);
  chunk(100);
  end({ total: 100, stop_reason: "cancelled" });
  assert.deepEqual([take.stop(), take.busy, take.sound.facts.ending], [false, false, "cancelled"]);
  assert.deepEqual([setUp({ ticket: null }).take.busy, setUp({ ticket: null }).take.stop()], [false, false]);
});

test("a take that fails after it has begun keeps its sound, and is not announced unless it is stored", () => {
  const { take, said, told, start, chunk, end } = setUp();
  start();
  chunk(100);
  end({ total: 100, stop_reason: null, problem: true });
  assert.deepEqual([said.at(-1), told, take.sound.length, take.sound.facts.ending], [["end", "problem"], [], 100, "error"]);
});

test("a take of which only the end arrives is over", () => {
  const { take, said, told, end } = setUp();
  end({ total: 100, take: "take" });
  assert.deepEqual([take.busy, said, told], [false, [["end", "finished"]], []]);
});

test("a deleted take is no longer the live one", () => {
  const { take, start, chunk, end } = setUp();
  start();
  chunk(100);
  end({ total: 100, take: "take" });
  take.forget("other");
  assert.equal(take.sound.id, "take");
  take.forget("take");
  assert.equal(take.sound, null);
});

test("a take ends with what has arrived when the connection breaks off", () => {
  const { take, said, told, start, chunk } = setUp();
  start();
  chunk(100);
  take.breakOff();
  assert.deepEqual([take.busy, take.sound.complete, take.sound.facts.ending], [false, true, "disconnected"]);
  assert.deepEqual(told, [["broken", { id: "take", ms: null, stalls: { times: 0, seconds: 0 } }]]);
  assert.deepEqual([said.at(-1), take.sound.status], [[TEXTS["player.broken"], "problem"], said.at(-1)[0]]);
});

test("a take that is not stored is not announced when the connection breaks off", () => {
  const { take, told, start, chunk } = setUp();
  start({ take: null });
  chunk(100);
  take.breakOff();
  assert.deepEqual(told, []);
});

test("a take of which a message was lost is replaced by the WAV, and continues at its position", async () => {
  const { take, playback, cache, start, chunk, end, report, refilled } = setUp();
  start();
  chunk(100);
  chunk(100, 200);
  await report({ position: 60 });
  const { sound } = take;
  sound.ms = 120;
  end({ total: 300, take: "take", wav: { name: "Hello.wav", url: "300" } });
  await refilled();
  assert.notEqual(take.sound, sound);
  assert.deepEqual([[...take.sound.all()], take.stats.refilled], [[...ramp(0, 300)], true]);
  assert.deepEqual([playback.sound, cache.get("take")], [take.sound, take.sound]);
  assert.deepEqual([playback.at.position, playback.wanted, take.sound.facts.ending, take.sound.wav.name], [60, true, "end", "Hello.wav"]);
  assert.equal(take.sound.ms, 120);
});

test("the WAV of a lost message waits in the cache if another sound was loaded, and a paused take stays paused", async () => {
  for (const leave of ["another sound", "another take", "pause"]) {
    const { take, playback, cache, former, start, chunk, end, refilled } = setUp();
    start();
    chunk(100);
    end({ total: 300, take: "take", wav: { name: "Hello.wav", url: "300" } });
    if (leave === "pause") playback.pause();
    else playback.load(former);
    if (leave === "another take") take.abandon();
    await refilled();
    assert.equal(cache.get("take").length, 300);
    assert.deepEqual(loaded(playback), leave === "pause" ? ["take", 0, false] : ["former", 0, true]);
    assert.equal(take.sound, leave === "another take" ? null : cache.get("take"));
  }
});

test("a WAV that cannot be fetched is a problem of this take, not of one that has begun since", async () => {
  for (const abandoned of [false, true]) {
    const { take, said, start, chunk, end, refilled } = setUp();
    start();
    chunk(100);
    end({ total: 300, take: "take", wav: { name: "Hello.wav", url: "gone" } });
    const { sound } = take;
    if (abandoned) take.abandon();
    await refilled();
    assert.equal(sound.status, TEXTS["player.broken"]);
    assert.deepEqual(said.at(-1), abandoned ? ["end", "finished"] : [sound.status, "problem"]);
  }
});

test("an unfinished take leaves the cache when another one begins; a finished one stays", () => {
  const unfinished = setUp();
  unfinished.start();
  unfinished.take.abandon();
  assert.equal(unfinished.cache.get("ticket"), undefined);
  const finished = setUp();
  finished.start();
  finished.chunk(100);
  finished.end({ total: 100 });
  finished.take.abandon();
  assert.equal(finished.cache.get("ticket").length, 100);
});

test("the first sound and the stalls of a take are measured while it is loaded", async () => {
  const { take, playback, former, told, start, chunk, report } = setUp();
  start();
  chunk(100);
  await report({ position: 0, played: 0, starved: 0 });
  assert.deepEqual([told, take.stats.output], [[], "worklet"]);
  take.stats.clickedAt = performance.now() - 3000;
  await report({ position: 50, startedAt: 1.5 }); // half a second ago, when there was no chunk yet
  assert.equal(take.stats.firstSoundAt, take.stats.firstChunkAt);
  const ms = Math.round(take.stats.firstSoundAt - take.stats.clickedAt);
  assert.deepEqual(told, [["heard", { id: "ticket", ms }]]);
  await report({ position: 100, startedAt: 1.5, underruns: 1, starved: 200 });
  assert.deepEqual(told.slice(1), [["stalled", { id: "ticket", stalls: { times: 1, seconds: 0.2 } }]]);
  assert.deepEqual([take.stats.underruns, take.stats.starved, take.sound.ms], [1, 200, ms]);
  Object.assign(take.stats, { firstChunkAt: 0, firstSoundAt: null });
  await report({ position: 100, startedAt: 2, underruns: 1, starved: 200 }); // now
  assert.ok(take.stats.firstSoundAt > 0);
  playback.load(former);
  await report({ position: 10, startedAt: 1.9, underruns: 2, starved: 300 });
  assert.deepEqual([told.length, take.stats.starved], [3, 200], "the former sound is no part of the take");
});
