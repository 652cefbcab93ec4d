// The microphone, and the audio session of Safari on a phone.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { Microphone } from "../../../../web/static/new_voice/capture/microphone.js";
import { ClipPlayer } from "../../../../web/static/new_voice/clips/clip_playback.js";

const session = { type: "auto" };
const seen = [];
let closedIn; // the session's type when a context had been closed

class Context {
  audioWorklet = { addModule: async () => {} };
  resume() {
    this.resumed = true;
  }
  async close() {
    await Promise.resolve();
    closedIn = session.type;
  }
  createMediaStreamSource() {
    return { connect() {} };
  }
}

class Node {
  port = { postMessage: () => this.port.onmessage({ data: null }) };
}

function browser(getUserMedia) {
  const navigator = { audioSession: session, mediaDevices: { getUserMedia } };
  Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true });
  Object.assign(globalThis, { AudioContext: Context, AudioWorkletNode: Node });
}

test("sound plays regardless of the ring/silent switch, and the microphone opens after it", async () => {
  const track = { getSettings: () => ({}), stop() {} };
  browser(async () => (seen.push(session.type), { getAudioTracks: () => [track] }));
  const player = new ClipPlayer();
  player.wake();
  assert.equal(session.type, "playback");
  const microphone = await Microphone.open(() => {}, () => {});
  assert.ok(microphone.context.resumed, "Safari opens it suspended");
  player.wake();
  assert.deepEqual([...seen, session.type], ["play-and-record", "play-and-record"], "playing does not end a recording");
  await microphone.close();
  assert.deepEqual([closedIn, session.type], ["play-and-record", "playback"]);
});

test("a refused microphone leaves the session for playback", async () => {
  browser(() => Promise.reject(new Error("refused")));
  await assert.rejects(Microphone.open(() => {}, () => {}));
  assert.equal(session.type, "playback");
});

test("a microphone that stays muted, as during a call, is gone", async () => {
  const track = { getSettings: () => ({}), stop() {}, muted: false };
  browser(async () => ({ getAudioTracks: () => [track] }));
  let gone = 0;
  const microphone = await Microphone.open(() => {}, () => (gone += 1));
  mock.timers.enable({ apis: ["setTimeout"] });
  const mute = (lasts) => {
    track.muted = true;
    track.onmute?.();
    track.muted = lasts;
    mock.timers.tick(1_000);
  };
  mute(false);
  assert.equal(gone, 0, "it was muted for a moment");
  mute(true);
  assert.equal(gone, 1);
  track.onmute?.();
  const closed = microphone.close();
  mock.timers.tick(1_000);
  await closed;
  assert.equal(gone, 1, "a closed microphone tells nothing");
  mock.timers.reset();
});

test("a rate that the browser refuses is resampled, and a microphone without a context is closed", async () => {
  let stopped = 0;
  let refusals = 0;
  const track = { getSettings: () => ({ sampleRate: 8_000 }), stop: () => (stopped += 1) };
  browser(async () => ({ getAudioTracks: () => [track] }));
  const refuse = (when) =>
    (globalThis.AudioContext = class extends Context {
      constructor(options) {
        if (when(options)) refusals += 1;
        if (when(options)) throw new DOMException("The rate is not supported.", "NotSupportedError");
        super();
      }
    });
  refuse((options) => options?.sampleRate === 8_000);
  const microphone = await Microphone.open(() => {}, () => {});
  await microphone.close();
  assert.deepEqual([refusals, stopped], [1, 1]);
  refuse(() => true);
  await assert.rejects(Microphone.open(() => {}, () => {}), { name: "NotSupportedError" });
  assert.deepEqual([stopped, session.type], [2, "playback"]);
});
