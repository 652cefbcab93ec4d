// The output for plain http, over an audio context whose clock is driven by the test.

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";

import { ramp } from "../helpers.js";
import { BufferOutput } from "../../../../web/static/player/playout/outputs.js";

const RATE = 1000;

let nodes; // scheduled pieces: { at, samples, stopped }
let ramps; // of the gain: [value, time]
let holds; // times until which it is 1
let lanes; // where gains are connected to
let context;
let output;
let at; // the last report

globalThis.AudioBufferSourceNode = class {
  constructor(_context, { buffer }) {
    this.samples = buffer.samples;
    nodes.push(this);
  }
  connect() {}
  start(time) {
    this.at = time;
  }
  stop(time) {
    this.stopped = time;
  }
};
globalThis.GainNode = class {
  gain = {
    cancelScheduledValues: () => ([ramps, holds] = [[], []]),
    setValueAtTime: (value, time) => value === 1 && holds.push(time),
    linearRampToValueAtTime: (...to) => ramps.push(to),
  };
  connect(next) {
    lanes.push(next);
  }
};

beforeEach(() => {
  [nodes, ramps, lanes, at] = [[], [], [], null];
  const createBuffer = (_channels, count, rate) => ({ duration: count / rate, copyToChannel(samples) { this.samples = [...samples]; } });
  context = { state: "running", currentTime: 1, createBuffer };
  mock.timers.enable({ apis: ["setInterval"] });
  output = new BufferOutput(context, "speaker", (report) => (at = report));
  mock.timers.reset();
});

// Loads a sound of this many samples.
function load(count, hints = {}, complete = true) {
  output.call("load", RATE, hints);
  output.call("write", 0, ramp(1000, count), 0);
  if (complete) output.call("finish");
}

// Lets this many seconds pass. every: between calls of the timer.
function pass(seconds, every = 0.1) {
  for (let left = seconds; left > 1e-9; left -= every) {
    context.currentTime += every;
    output.pump();
  }
}

const heard = () => nodes.flatMap(({ samples }) => samples.map((value) => Math.round(value * 32768)));
const near = (one, other) => assert.ok(Math.abs(one - other) < 1e-6, `${one} is not near ${other}`);

test("pieces follow each other without a gap, a second ahead, and the position follows the clock", () => {
  load(3000);
  near(nodes[0].at, 1.02);
  assert.deepEqual(lanes, ["speaker"]);
  const until = nodes.at(-1).at + nodes.at(-1).samples.length / RATE;
  near(ramps.at(-1)[1], until); // in case the page is held up
  near(holds.at(-1), until - 0.005);
  assert.equal(output.kind, "buffers");
  const ahead = heard().length;
  assert.ok(ahead >= 1200 && ahead < 1500);
  near(at.position, 0);
  pass(0.5);
  near(at.position, 480);
  assert.deepEqual([at.received, at.wanted, at.ended, at.startedAt, at.underruns, at.lost], [3, true, false, 1.02, 0, 0]);
  pass(3);
  for (const [i, { at: time }] of nodes.entries()) if (i) near(time, nodes[i - 1].at + nodes[i - 1].samples.length / RATE);
  assert.deepEqual(heard().slice(5, 3000), [...ramp(1005, 2995)]);
  assert.deepEqual(ramps, []);
  assert.deepEqual(heard().slice(3000), [3199, 2399, 1600, 800, 0], "the last sample fades out");
  assert.deepEqual([at.position, at.ended, at.wanted, at.underruns], [3000, true, false, 0]);
});

for (const speed of [0.5, 0.75, 1, 1.05, 1.1, 1.25, 1.5, 2]) {
  test(`a sound of any length ends at speed ${speed}, and can be played again`, () => {
    for (const count of [1000, 1001, 1047]) {
      load(count, { speed });
      pass(3);
      assert.deepEqual([at.position, at.ended, at.wanted, at.underruns], [count, true, false, 0]);
      output.call("play");
      pass(0.5);
      assert.ok(at.wanted && at.position > 0 && at.position < count);
    }
  });
}

test("a complete sound goes on after the page was held up for longer than what is scheduled", () => {
  load(3000);
  pass(2, 2);
  assert.equal(at.wanted, true);
  pass(0.2);
  assert.deepEqual([at.wanted, at.waiting, at.underruns], [true, false, 1]);
  pass(3);
  assert.deepEqual([at.position, at.ended], [3000, true]);
  assert.ok(at.starved > 0);
});

test("nothing is scheduled while the system has the output", () => {
  context.state = "suspended";
  load(1000);
  pass(0.3);
  assert.deepEqual([nodes, at], [[], null]);
  context.state = "running";
  pass(0.1);
  assert.ok(nodes.length > 0 && at.wanted);
});

test("an arriving take that runs dry waits for more, and fades out in case it does", () => {
  load(100, {}, false);
  const end = nodes[0].at + 0.1;
  near(ramps.at(-1)[1], end);
  pass(0.2);
  assert.deepEqual([at.wanted, at.waiting, at.buffering, at.underruns], [true, true, true, 1]);
  output.call("write", 100, ramp(1100, 500), 0.3);
  near(nodes[1].at, context.currentTime + 0.02);
  near(at.starved, (nodes[1].at - end) * RATE);
  assert.deepEqual(heard().slice(105, 110), [...ramp(1105, 5)]);
});

test("what is scheduled but not heard is recalled by a pause or a seek, and by samples that replace it", () => {
  load(3000);
  pass(0.5);
  output.call("pause");
  assert.ok([479, 480].includes(at.position)); // the clock is not exact
  assert.equal(at.wanted, false);
  assert.deepEqual([nodes[0].stopped, nodes.slice(1).every(({ stopped }) => Math.abs(stopped - 1.505) < 1e-6)], [undefined, true], "one is over");
  const before = nodes.length;
  pass(1);
  assert.equal(nodes.length, before);
  output.call("seek", 2000);
  output.call("play");
  assert.equal(Math.round(nodes.at(before).samples[10] * 32768), 3010);
  const again = nodes.length;
  load(1000, {}, false);
  near(at.startedAt, nodes[again].at);
  const first = nodes.at(-1);
  output.call("write", 200, ramp(9000, 100), 0.1);
  assert.ok(first.stopped);
  pass(0.3);
  assert.equal(heard().at(-1), 9099);
});

test("what is recalled at another speed was not played", () => {
  load(4000, { speed: 2 });
  pass(0.1);
  const before = nodes.length;
  output.call("seek", 1000);
  const scheduled = nodes.slice(before).reduce((sum, { samples }) => sum + samples.length, 0);
  assert.ok(Math.abs(at.played - scheduled - 80) <= 1);
});

test("what follows a take that ran dry begins in silence", () => {
  load(100, {}, false);
  pass(0.3);
  const before = nodes.length;
  output.call("seek", 50);
  output.call("finish");
  assert.equal(Math.round(nodes[before].samples[0] * 32768), 210, "a fifth of it");
});

test("an output leaves no timer when its audio context is closed", () => {
  const begun = mock.method(globalThis, "setInterval", () => "timer").mock;
  const cleared = mock.method(globalThis, "clearInterval", () => {}).mock;
  new BufferOutput(context, {}, () => {});
  const [tick] = begun.calls[0].arguments;
  tick();
  assert.equal(cleared.calls.length, 0);
  context.state = "closed";
  tick();
  assert.deepEqual(cleared.calls.map((call) => call.arguments), [["timer"]]);
  mock.restoreAll();
});
