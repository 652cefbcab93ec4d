// Playback over an output that is driven by the test.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ramp } from "../helpers.js";
import { Playback, SUSPEND_AFTER } from "../../../../web/static/player/playback.js";
import { Sound } from "../../../../web/static/player/sound_cache.js";

// A playback, the calls to its output, and its events. report(…): sends the output's report of its state.
function setUp() {
  const calls = [];
  const events = [];
  const context = { state: "suspended", resume: () => (context.state = "running"), suspend: () => (context.state = "suspended") };
  const timers = [];
  const waits = []; // for a report of the output
  let say;
  const open = async (_rate, report) => {
    say = report;
    return { context, output: { call: (...call) => calls.push(call) } };
  };
  const playback = new Playback(open, (event, ...more) => event !== "moved" && events.push([event, ...more]), (ms, done) => (ms === SUSPEND_AFTER ? timers : waits).push(done));
  const report = async (at) => {
    await playback.opening;
    await new Promise(setImmediate);
    const usual = { wanted: true, waiting: false, ended: false, played: 1, underruns: 0, starved: 0, pace: Infinity };
    say({ ...usual, received: playback.sent, ...at });
  };
  return { playback, calls, events, report, context, timers, waits };
}

const whole = (id, count = 4000) => Sound.whole(id, { rate: 1000, samples: ramp(0, count) });

test("an arriving take is passed on in chunks", async () => {
  const { playback, calls, events, report } = setUp();
  const live = new Sound("live", 1000, { expected: 5000 });
  playback.load(live);
  playback.feed(live, 0, ramp(0, 100));
  await report({ position: 50 });
  playback.finish(live);
  await report({ position: 100, ended: true, wanted: false });
  assert.deepEqual(calls.map(([method]) => method), ["load", "write", "finish"]);
  assert.equal(calls[0][2].expected, 5);
  const [written, ended] = [calls[1][3], playback.at.now];
  assert.ok(written > 0 && ended >= written && ended <= performance.now() / 1000);
  assert.deepEqual(events, [["playing", "live"], ["stopped", "live", "ended"]]);
});

test("the audio context is suspended when idle, but not if playback started meanwhile", async () => {
  const { playback, report, context, timers } = setUp();
  playback.load(whole("a"));
  await report({ position: 4000, ended: true, wanted: false });
  await report({ position: 4000, ended: true, wanted: false });
  assert.deepEqual([timers.length, context.state], [1, "running"]);
  playback.play();
  timers.shift()();
  assert.equal(context.state, "running");
  await report({ position: 100 });
  playback.pause();
  await report({ position: 100, wanted: false });
  timers.shift()();
  assert.equal(context.state, "suspended");
  playback.play();
  await report({ position: 100 });
  assert.equal(context.state, "running");
});

test("playback counts as paused while the system has the output, and continues when it is given back", async () => {
  const { playback, calls, events, report, context } = setUp();
  const change = (state) => {
    context.state = state;
    context.onstatechange?.();
  };
  const live = new Sound("live", 1000);
  playback.load(live);
  playback.feed(live, 0, ramp(0, 1000));
  await report({ position: 50 });
  change("interrupted");
  assert.deepEqual([playback.wanted, events], [false, [["playing", "live"], ["stopped", "live", "paused"]]]);
  await report({ position: 60 }); // sent before
  playback.feed(live, 1000, ramp(1000, 1000));
  await new Promise(setImmediate);
  assert.deepEqual([calls.at(-1)[0], context.state, events.length], ["write", "interrupted", 2], "the system is not asked for the output");
  change("running");
  assert.equal(playback.wanted, true);
  await report({ position: 70 });
  assert.deepEqual(events.slice(2), [["playing", "live"]]);
});

test("a sound that was interrupted can be paused, and played by hand", async () => {
  const { playback, calls, report, context } = setUp();
  playback.load(whole("a"));
  await report({ position: 50 });
  context.state = "suspended"; // for good
  context.onstatechange?.();
  playback.toggle();
  await new Promise(setImmediate);
  assert.deepEqual([playback.wanted, calls.at(-1)[0], context.state], [true, "play", "running"]);
  await report({ position: 60 });
  context.state = "interrupted";
  context.onstatechange?.();
  playback.pause();
  await new Promise(setImmediate);
  context.state = "running";
  context.onstatechange?.();
  assert.deepEqual([playback.wanted, calls.at(-1)[0]], [false, "pause"]);
  playback.play();
  await report({ position: 70 });
  context.state = "interrupted";
  context.onstatechange?.();
  playback.load(whole("b"));
  await new Promise(setImmediate);
  assert.deepEqual([playback.wanted, context.state], [true, "running"], "also another sound");
});

test("the suspension of an idle context is no interruption", async () => {
  const { playback, events, report, context, timers } = setUp();
  playback.load(whole("a"));
  await report({ position: 4000, ended: true, wanted: false });
  timers.shift()();
  context.onstatechange?.();
  playback.play();
  assert.deepEqual([playback.wanted, events], [true, []]);
});

test("an output that does not play is reported once, until it plays", async () => {
  const { playback, events, report, waits } = setUp();
  const live = new Sound("live", 1000);
  playback.load(live);
  assert.equal(waits.length, 0, "there is nothing to play yet");
  playback.feed(live, 0, ramp(0, 100));
  playback.feed(live, 100, ramp(100, 200));
  assert.equal(waits.length, 1);
  waits.shift()();
  assert.deepEqual([playback.silent, events], [true, [["silent"]]]);
  await report({ position: 50 });
  assert.deepEqual([playback.silent, events], [false, [["silent"], ["silent"], ["playing", "live"]]]);
});

test("a paused or reporting output is not called silent", async () => {
  const { playback, report, waits } = setUp();
  playback.load(whole("a"));
  playback.pause();
  waits.shift()();
  assert.equal(playback.silent, false);
  playback.play();
  await report({ position: 50 });
  waits.shift()();
  assert.equal(playback.silent, false);
  playback.play();
  waits.shift()();
  assert.equal(playback.silent, true);
  playback.pause();
  assert.equal(playback.silent, false);
});

test("a sound is loaded silently at a position and played from there", async () => {
  const { playback, calls, events, report } = setUp();
  playback.load(whole("a", 4000), 0.25, false);
  await report({ position: 1000, wanted: false });
  assert.deepEqual(calls.map(([method]) => method), ["load", "pause", "write", "finish", "seek"]);
  assert.deepEqual([playback.wanted, playback.place, events], [false, 0.25, []]);
  playback.play();
  await report({ position: 1100 });
  assert.deepEqual(events, [["playing", "a"]]);
});

test("a take keeps arriving while another plays, and is complete when it is loaded", async () => {
  const { playback, calls } = setUp();
  const live = new Sound("live", 1000);
  playback.load(live);
  playback.feed(live, 0, ramp(0, 100));
  playback.load(whole("old"));
  playback.feed(live, 100, ramp(100, 100));
  playback.load(live);
  await playback.wake();
  await new Promise(setImmediate);
  const write = calls.filter(([method]) => method === "write").at(-1);
  assert.deepEqual(write.slice(0, 3), ["write", 0, ramp(0, 200)]);
  assert.equal(calls.filter(([method]) => method === "write").length, 3);
});

test("another take continues at the same share of its length", async () => {
  const { playback, calls, events, report } = setUp();
  playback.load(whole("a", 4000));
  await report({ position: 1000 });
  playback.load(whole("b", 8000), playback.place);
  await report({ position: 2000, played: 0 });
  assert.deepEqual(calls.slice(-2), [["seek", 2000], ["play"]]);
  assert.deepEqual(events, [["playing", "a"], ["stopped", "a", "replaced"]]);
  assert.equal(playback.place, 0.25);
});

test("reports from before the output received a call are ignored", async () => {
  const { playback, events, report } = setUp();
  playback.load(whole("a"));
  await report({ position: 1000 });
  playback.pause();
  await report({ position: 1010, received: playback.sent - 1 });
  assert.equal(playback.wanted, false);
  assert.deepEqual(events, [["playing", "a"], ["stopped", "a", "paused"]]);
});

test("seeking is limited to the samples that have arrived", async () => {
  const { playback, calls } = setUp();
  const live = new Sound("live", 1000, { expected: 9000 });
  playback.load(live);
  playback.seek(1);
  playback.feed(live, 0, ramp(0, 2000));
  let moved = 0;
  playback.tell = (event) => (moved += Number(event === "moved"));
  [-5, 1.5, Infinity].forEach((time) => playback.seek(time));
  assert.equal(moved, 3);
  await playback.wake();
  await new Promise(setImmediate);
  assert.deepEqual(calls.filter(([method]) => method === "seek"), [["seek", 0], ["seek", 1500], ["seek", 2000]]);
});

test("stalls are counted per take, across several loads", async () => {
  const { playback, report } = setUp();
  const live = new Sound("live", 1000);
  playback.load(live);
  playback.feed(live, 0, ramp(0, 100));
  await report({ position: 50, underruns: 2, starved: 1500, pace: 0.8 });
  assert.deepEqual([playback.stalls, playback.pace], [{ times: 2, seconds: 1.5 }, 0.8]);
  playback.load(whole("other"));
  assert.equal(playback.stalls.times, 0);
  playback.load(live);
  await report({ position: 50, underruns: 1, starved: 250 });
  assert.deepEqual([playback.stalls, playback.pace], [{ times: 3, seconds: 1.75 }, 0.8], "a pace that is not measured yet does not count");
});

test("play after the end restarts; toggle pauses and resumes", async () => {
  const { playback, report } = setUp();
  playback.load(whole("a", 1000));
  await report({ position: 1000, ended: true, wanted: false });
  assert.equal(playback.wanted, false);
  playback.toggle();
  assert.deepEqual([playback.wanted, playback.seconds], [true, 0]);
  playback.toggle();
  assert.equal(playback.wanted, false);
  playback.clear();
  assert.deepEqual([playback.sound, playback.seconds, playback.stalls.times, playback.place], [null, 0, 0, 0]);
});

test("a sound that is unloaded is silent, and has stopped", async () => {
  const { playback, calls, events, report } = setUp();
  playback.load(whole("a"));
  await report({ position: 100 });
  playback.clear();
  await new Promise(setImmediate);
  assert.deepEqual([calls.at(-1), events], [["pause"], [["playing", "a"], ["stopped", "a", "replaced"]]]);
  const { length } = calls;
  playback.clear();
  await new Promise(setImmediate);
  assert.equal(calls.length, length);
});

test("the speed is that of all sounds", async () => {
  const { playback, calls } = setUp();
  playback.setSpeed(1.5);
  playback.load(whole("a"));
  playback.setSpeed(2);
  playback.load(whole("b"));
  await playback.wake();
  await new Promise(setImmediate);
  assert.deepEqual(calls.filter(([method]) => method === "load").map(([, , { speed }]) => speed), [1.5, 2]);
  assert.deepEqual(calls.filter(([method]) => method === "setSpeed"), [["setSpeed", 2]]);
});

test("an output that could not be opened is opened again for the next sound", async () => {
  const calls = [];
  const events = [];
  let broken = true;
  const open = async () => {
    if (broken) throw new Error("no worklet");
    return { context: { resume: () => {} }, output: { call: (method) => calls.push(method) } };
  };
  let say;
  const playback = new Playback((rate, report) => ((say = report), open()), (...event) => event[0] !== "moved" && events.push(event), () => {});
  playback.load(whole("a"));
  await playback.opening;
  assert.deepEqual(events, [["stopped", "a", "failed"], ["failed", "a"]]);
  assert.deepEqual([playback.sound, playback.wanted], [null, false]);
  broken = false;
  playback.load(whole("a"));
  await playback.opening;
  await new Promise(setImmediate);
  assert.deepEqual(calls, ["load", "pause", "write", "finish", "seek", "play"]);
  assert.equal(playback.wanted, true);
  say({ received: calls.length, position: 500, wanted: true, played: 1, underruns: 0, starved: 0 });
  assert.equal(playback.seconds, 0.5, "its reports count");
});

test("an output that does not play is replaced when the sound is played again", async () => {
  const graphs = [];
  const waits = [];
  const open = async (_rate, report) => {
    const graph = { calls: [], closed: false, report, context: { resume: () => Promise.reject(new Error("refused")), close: () => (graph.closed = true) } };
    graph.output = { call: (method) => graph.calls.push(method) };
    graphs.push(graph);
    return graph;
  };
  const playback = new Playback(open, () => {}, (_ms, done) => waits.push(done));
  const at = { wanted: true, waiting: false, ended: false, played: 1, underruns: 0, starved: 0, pace: Infinity };
  playback.load(whole("a"));
  await playback.opening;
  graphs[0].report({ ...at, received: playback.sent, position: 1000 });
  playback.play();
  waits.at(-1)();
  assert.equal(playback.silent, true);
  playback.toggle();
  assert.equal(graphs[0].closed, false, "it may recover while it is not needed");
  playback.toggle();
  await playback.opening;
  await new Promise(setImmediate);
  assert.deepEqual([graphs.length, graphs[0].closed, graphs[1]?.closed], [2, true, false]);
  assert.deepEqual(graphs[1].calls, ["load", "pause", "write", "finish", "seek", "play"]);
  graphs[1].report({ ...at, received: graphs[1].calls.length, position: 1500 });
  assert.deepEqual([playback.silent, playback.seconds], [false, 1.5], "its reports count");
  Object.assign(graphs[0].context, { state: "closed" }).onstatechange(); // later, as contexts close
  assert.equal(playback.wanted, true);

  playback.play();
  waits.at(-1)();
  playback.load(whole("b"));
  await playback.opening;
  assert.deepEqual([graphs.length, graphs[1].closed], [3, true], "also for another sound");
});

test("an output that cannot be opened after a long wait is not called silent", async () => {
  const waits = [];
  let refuse;
  const open = () => new Promise((_opened, refused) => (refuse = refused));
  const playback = new Playback(open, () => {}, (_ms, done) => waits.push(done));
  playback.load(whole("a"));
  waits.shift()();
  assert.equal(playback.silent, true);
  refuse(new Error("no worklet"));
  await playback.opening;
  assert.equal(playback.silent, false);
});
