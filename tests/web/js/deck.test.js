// What sounds: the deck over an output that a test plays by hand.

const test = require("node:test");
const assert = require("node:assert/strict");
const { load, ramp } = require("./load.js");

const { Deck, Sound } = load(["player/samples.js", "face/peaks.js", "player/shelf.js", "player/deck.js"], ["Deck", "Sound"]);

// A deck, the calls that its output got, and what it told. report(…): where the output says that playing stands.
function setUp() {
  const calls = [];
  const told = [];
  let say;
  const open = async (_rate, report) => {
    say = report;
    return { context: { resume() {} }, output: { call: (...call) => calls.push(call) } };
  };
  const deck = new Deck(open, (event, ...more) => event !== "moved" && told.push([event, ...more]));
  const report = async (at) => {
    await deck.wake(1000);
    await new Promise(setImmediate);
    const usual = { wanted: true, waiting: false, ended: false, played: 1, underruns: 0, pace: Infinity };
    say({ ...usual, received: deck.sent, ...at });
  };
  return { deck, calls, told, report };
}

const whole = (id, count = 4000) => Sound.whole(id, { rate: 1000, samples: ramp(0, count) });

test("a take that arrives is handed on as it comes", async () => {
  const { deck, calls, told, report } = setUp();
  const live = new Sound("live", 1000, { expected: 5000 });
  deck.load(live);
  deck.feed(live, 0, ramp(0, 100));
  await report({ position: 50 });
  deck.finish(live);
  await report({ position: 100, ended: true, wanted: false });
  assert.deepEqual(calls.map(([method]) => method), ["load", "write", "finish"]);
  assert.equal(calls[0][2].expected, 5);
  assert.deepEqual(told, [["playing", "live"], ["stopped", "live", "ended"]]);
});

test("a sound is put on without a sound, and played from there", async () => {
  const { deck, calls, told, report } = setUp();
  deck.load(whole("a", 4000), 0.25, false);
  await report({ position: 1000, wanted: false });
  assert.deepEqual(calls.map(([method]) => method), ["load", "pause", "write", "finish", "seek"]);
  assert.deepEqual([deck.wanted, deck.place, told], [false, 0.25, []]);
  deck.play();
  await report({ position: 1100 });
  assert.deepEqual(told, [["playing", "a"]]);
});

test("a take still arrives while another is heard, and is whole when it is put on", async () => {
  const { deck, calls } = setUp();
  const live = new Sound("live", 1000);
  deck.load(live);
  deck.feed(live, 0, ramp(0, 100));
  deck.load(whole("old"));
  deck.feed(live, 100, ramp(100, 100));
  deck.load(live);
  await deck.wake();
  await new Promise(setImmediate);
  const write = calls.filter(([method]) => method === "write").at(-1);
  assert.deepEqual(write.slice(0, 3), ["write", 0, ramp(0, 200)]);
  assert.equal(calls.filter(([method]) => method === "write").length, 3);
});

test("the other take goes on at the same share of its length", async () => {
  const { deck, calls, told, report } = setUp();
  deck.load(whole("a", 4000));
  await report({ position: 1000 });
  deck.load(whole("b", 8000), deck.place);
  await report({ position: 2000, played: 0 });
  assert.deepEqual(calls.slice(-2), [["seek", 2000], ["play"]]);
  assert.deepEqual(told, [["playing", "a"], ["stopped", "a", "replaced"]]);
  assert.equal(deck.place, 0.25);
});

test("what the output said before it heard of a call is not believed", async () => {
  const { deck, told, report } = setUp();
  deck.load(whole("a"));
  await report({ position: 1000 });
  deck.pause();
  await report({ position: 1010, received: deck.sent - 1 });
  assert.equal(deck.wanted, false);
  assert.deepEqual(told, [["playing", "a"], ["stopped", "a", "paused"]]);
});

test("seeking stays in what has arrived", async () => {
  const { deck, calls } = setUp();
  const live = new Sound("live", 1000, { expected: 9000 });
  deck.load(live);
  deck.seek(1);
  deck.feed(live, 0, ramp(0, 2000));
  [-5, 1.5, Infinity].forEach((time) => deck.seek(time));
  await deck.wake();
  await new Promise(setImmediate);
  assert.deepEqual(calls.filter(([method]) => method === "seek"), [["seek", 0], ["seek", 1500], ["seek", 2000]]);
});

test("gaps are counted for each take, over all the times that it was put on", async () => {
  const { deck, report } = setUp();
  const live = new Sound("live", 1000);
  deck.load(live);
  deck.feed(live, 0, ramp(0, 100));
  await report({ position: 50, underruns: 2, pace: 0.8 });
  assert.deepEqual([deck.gaps, deck.pace], [2, 0.8]);
  deck.load(whole("other"));
  assert.equal(deck.gaps, 0);
  deck.load(live);
  await report({ position: 50, underruns: 1 });
  assert.equal(deck.gaps, 3);
});

test("play after the end begins again; toggle pauses and goes on", async () => {
  const { deck, report } = setUp();
  deck.load(whole("a", 1000));
  await report({ position: 1000, ended: true, wanted: false });
  assert.equal(deck.wanted, false);
  deck.toggle();
  assert.deepEqual([deck.wanted, deck.seconds], [true, 0]);
  deck.toggle();
  assert.equal(deck.wanted, false);
  deck.clear();
  assert.deepEqual([deck.sound, deck.seconds, deck.gaps, deck.place], [null, 0, 0, 0]);
});
