// Playback of clips, over audio contexts that are driven by the test.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { ClipPlayer } from "../../../../web/static/new_voice/clips/clip_playback.js";

const contexts = [];
const fades = []; // [value, time]
const gain = () => ({ setTargetAtTime: (...fade) => fades.push(fade.slice(0, 2)), cancelScheduledValues: () => (fades.length = 0) });

class Context {
  constructor() {
    Object.assign(this, { currentTime: 0, state: "running", nodes: [] });
    contexts.push(this);
  }
  resume() {
    this.state = "running";
  }
  suspend() {
    this.state = "suspended";
  }
  close() {
    this.state = "closed";
  }
}

class Source {
  constructor(context) {
    context.nodes.push(this);
  }
  connect(next) {
    return next;
  }
  start(...place) {
    this.started = place;
  }
  stop(time) {
    this.stopped = time;
  }
}

class Gain extends Source {
  constructor() {
    super({ nodes: [] });
    this.gain = gain();
  }
}

globalThis.navigator ??= {};
Object.assign(globalThis, { AudioContext: Context, AudioBufferSourceNode: Source, GainNode: Gain });
globalThis.OfflineAudioContext = class {
  decodeAudioData = async () => ({ duration: 2 });
};
const file = { arrayBuffer: async () => new ArrayBuffer(0) };

let player;
let ended;
beforeEach(() => {
  contexts.length = fades.length = 0;
  player = new ClipPlayer();
  ended = 0;
});
const play = () => player.play(file, 0, null, () => (ended += 1));

test("the sound output is released after a clip", async () => {
  await play();
  assert.deepEqual([player.playing, contexts.length], [true, 1]);
  contexts[0].nodes[0].onended();
  assert.deepEqual([player.playing, ended, contexts[0].state], [false, 1, "closed"]);
});

test("a clip is heard again although an output has died, as in Safari after a call", async () => {
  await play();
  player.stop(); // its clock stands still: it does not end
  await play();
  assert.deepEqual([player.playing, contexts.length], [true, 2]);
  contexts[0].nodes[0].onended();
  assert.deepEqual([player.playing, ...contexts.map(({ state }) => state)], [true, "closed", "running"]);
});

test("a part of a file is played, and fades in and out at its ends or when it is stopped", async () => {
  player.wake();
  const [context] = contexts;
  context.currentTime = 5;
  await player.play(file, 0.5, 1.75, () => {});
  assert.deepEqual([context.nodes[0].started, fades], [[5, 0.5, 1.25], [[1, 5], [0, 6.245]]]);
  context.currentTime = 5.5;
  assert.equal(player.time, 1);
  player.stop();
  assert.deepEqual([context.nodes[0].stopped, fades, player.time], [5.505, [[0, 5.5]], null]);
});

test("an output that was opened in the user gesture plays the clip that arrives later", async () => {
  player.wake();
  await play();
  assert.equal(contexts.length, 1);
});
