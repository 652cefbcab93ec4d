// The parts of a file that is longer than a clip may be, and clips of saved voices.

import assert from "node:assert/strict";
import test from "node:test";
import { inspected, LongFile, storedFile } from "../../../../web/static/new_voice/clips/sound_file.js";
import { decodeWav } from "../../../../web/static/sound/wav.js";

test("parts of a long file follow each other, and the last one ends with it", () => {
  const file = new LongFile(null, 200, 90);
  assert.equal(new LongFile(null, 180.1, 90).later(90), null);
  assert.deepEqual([0, 90, 110].map((start) => file.later(start)), [90, 110, null]);
  assert.deepEqual([0, 90, 110].map((start) => file.earlier(start)), [null, 0, 90]);
});

test("a file is long from the padding of lossy encoders on, and too long to be decoded whole from ten minutes on", () => {
  assert.deepEqual([null, 90.1, 90.3].map((seconds) => LongFile.is(seconds, 90)), [false, false, true]);
  assert.deepEqual([600, 601].map((seconds) => new LongFile(null, seconds, 90).tooLong), [false, true]);
});

test("a part of a file with several channels is their mean", async () => {
  const channels = [[0.5, -0.5, 0.25], [0.5, 0.5, 0]].map((loudness) => Float32Array.from(loudness.flatMap((each) => Array(10).fill(each))));
  globalThis.OfflineAudioContext = class {
    decodeAudioData = async () => ({ duration: 3, sampleRate: 10, length: 30, numberOfChannels: 2, getChannelData: (i) => channels[i] });
  };
  const file = new File([""], "pair.flac");
  const { rate, samples } = decodeWav(await (await new LongFile(file, 9, 1).cut(1)).arrayBuffer());
  assert.deepEqual([rate, ...samples], [10, ...Array(10).fill(0)]);
  const whole = new LongFile(file, 9, 2);
  assert.deepEqual([...decodeWav(await (await whole.cut(1)).arrayBuffer()).samples.slice(10)], Array(10).fill(4096));
  assert.equal(whole.seconds, 3, "the header was wrong");
  const { seconds, peaks, playable } = await inspected(file, 3);
  assert.deepEqual([seconds, Math.max(...peaks), playable], [3, 0.5, true]);
});

test("the server is asked once about a file that the browser cannot read, and told apart from one that it can", async () => {
  globalThis.OfflineAudioContext = class {
    decodeAudioData = async () => Promise.reject(new Error("unknown format"));
  };
  const file = new File([""], "odd.amr");
  let asked = 0;
  for (const length of [null, 3]) {
    asked = 0;
    const found = await inspected(file, length, async () => ({ seconds: 3, peaks: [(asked += 1)] }));
    assert.deepEqual([found, asked], [{ seconds: 3, peaks: [1], playable: false }, 1], `${length}`);
  }
  assert.deepEqual(await inspected(file, null, async () => ({ seconds: null, peaks: null })), { seconds: null, peaks: null, playable: false });
  for (const length of [null, 3]) await assert.rejects(inspected(file, length, async () => ({ problem: "No sound." })), { message: "No sound." });
});

test("a saved voice's clip is null if the server has none, is gone, or goes while it sends it", async () => {
  const broken = new ReadableStream({ pull: (controller) => controller.error(new TypeError("network error")) });
  const answers = [async () => new Response("RIFF"), async () => new Response("", { status: 404 }), async () => Promise.reject(new TypeError("")), async () => new Response(broken)];
  const files = [];
  for (globalThis.fetch of answers) files.push(await storedFile("clip", "Ada.wav"));
  assert.deepEqual(files.slice(1), [null, null, null]);
  assert.deepEqual([files[0].name, files[0].type, await files[0].text()], ["Ada.wav", "audio/wav", "RIFF"]);
});
