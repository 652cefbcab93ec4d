// Playback of clips, over audio contexts that are driven by the test.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { ClipPlayer } from "../../../../web/static/new_voice/clips/clip_playback.js";

const contexts = [];
const gain = () => ({ setTargetAtTime() {}, cancelScheduledValues() {} });

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
  start() {}
  stop() {
    this.stopped = true;
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
  contexts.length = 0;
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

test("an output that was opened in the user gesture plays the clip that arrives later", async () => {
  player.wake();
  await play();
  assert.equal(contexts.length, 1);
});
