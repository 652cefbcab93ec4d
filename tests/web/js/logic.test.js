// WAV files, peaks, the sound cache, the meter, recordings, the countdown, and errors of the microphone.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english, ramp, seeded } from "./helpers.js";
import { EXACT, obstacle, refusal } from "../../../web/static/new_voice/capture/microphone.js";
import { Countdown, Meter, onMeter, Recording } from "../../../web/static/new_voice/capture/recording.js";
import { Sound, SoundCache } from "../../../web/static/player/sound_cache.js";
import { clock, firstSound, lengthOf, secondsOf } from "../../../web/static/ui/format.js";
import { barsOf, Peaks } from "../../../web/static/sound/peaks.js";
import { decodeWav, encodeWav, toInt16 } from "../../../web/static/sound/wav.js";
import { useWords, words } from "../../../web/static/ui/words.js";

useWords(english("clip"));

const near = (a, b, by = 1e-6) => assert.ok(Math.abs(a - b) <= by, `${a} is not near ${b}`);

test("arrays are written as lists of the language", () => {
  useWords({ "list.more": "{first}、{next}", "library.imported": "已导入 {names}。" }, {}, "zh-CN");
  assert.equal(words("library.imported", { names: ["{next}", "B", "C"] }), "已导入 {next}、B、C。");
  assert.equal(words("library.imported", { names: ["A"] }), "已导入 A。");
  useWords(english("clip"));
});

test("an encoded WAV decodes to the same samples", () => {
  const samples = Int16Array.of(0, 1, -1, 32767, -32768);
  const file = new DataView(encodeWav(samples, 22050));
  const header = [16, 24, 28].map((at) => file.getUint32(at, true)).concat([20, 22, 32, 34].map((at) => file.getUint16(at, true)));
  assert.deepEqual(header, [16, 22050, 44100, 1, 1, 2, 16]);
  assert.deepEqual(decodeWav(file.buffer), { rate: 22050, samples });
  assert.deepEqual(decodeWav(encodeWav(Int16Array.of(), 22050)), { rate: 22050, samples: Int16Array.of() });
});

test("a WAV with other chunks is read; anything but 16-bit mono WAV is rejected", () => {
  const plain = new Uint8Array(encodeWav(ramp(0, 3), 8000));
  const list = [...Buffer.from("LIST"), 3, 0, 0, 0, 1, 2, 3, 0];
  const longer = Uint8Array.from([...plain.slice(0, 36), ...list, ...plain.slice(36)]);
  assert.deepEqual(Array.from(decodeWav(longer.buffer).samples), [0, 1, 2]);
  const stereo = plain.slice();
  stereo[22] = 2;
  for (const bytes of [stereo, plain.slice(0, 20), new Uint8Array(200)]) assert.equal(decodeWav(bytes.buffer), null);
  assert.deepEqual(decodeWav(plain.slice(0, 47).buffer).samples, Int16Array.of(0), "a truncated file");
});

test("floats are scaled to 16 bits as decoders do, and clamped", () => {
  const samples = toInt16(Float32Array.of(0, 0.5, -1, 1, 3, -3));
  assert.deepEqual(Array.from(samples), [0, 16384, -32768, 32767, 32767, -32768]);
});

test("peaks are the maximum of each interval, whatever the chunk sizes", () => {
  const random = seeded(3);
  const samples = Float32Array.from({ length: 5000 }, () => random() * 2 - 1);
  const whole = new Peaks(1000);
  whole.add(0, samples);
  const cut = new Peaks(1000);
  for (let at = 0; at < samples.length; ) {
    const count = 1 + Math.floor(random() * 90);
    cut.add(at, samples.subarray(at, at + count));
    at += count;
  }
  assert.deepEqual(cut.values, whole.values);
  assert.equal(whole.values.length, 250);
  near(whole.values[7], Math.max(...samples.subarray(140, 160).map(Math.abs)));
});

test("peaks of a repeated segment replace those after its start", () => {
  const peaks = new Peaks(1000);
  peaks.add(0, new Float32Array(200).fill(0.9));
  peaks.add(100, new Float32Array(50).fill(0.1));
  assert.deepEqual(peaks.values.map((value) => Math.round(value * 10)), [9, 9, 9, 9, 9, 1, 1, 1]);
});

test("bars are null where no samples have arrived", () => {
  assert.deepEqual(barsOf([0.1, 0.5, 0.2, 0.3], 8, 4), [0.5, 0.3, null, null]);
  assert.deepEqual(barsOf([0.1, 0.5], 2, 4), [0.1, 0.1, 0.5, 0.5]);
  assert.deepEqual(barsOf([], 0, 2), [null, null]);
});

test("a sound spans its expected length until it is complete", () => {
  const sound = new Sound("a", 1000, { expected: 5000 });
  sound.write(0, ramp(0, 1000));
  assert.deepEqual([sound.seconds, sound.span], [1, 5]);
  near(Math.max(...sound.peaks.values), 999 / 32768);
  sound.complete = true;
  assert.equal(sound.span, 1);
  sound.write(1500, ramp(0, 100)); // a chunk was lost
  assert.equal(sound.peaks.values.length, 80);
});

test("the cache evicts the oldest sound, but never an incomplete or the latest one", () => {
  const bytes = Sound.whole("x", { rate: 1000, samples: ramp(0, 10) }).samples.byteLength;
  const cache = new SoundCache(bytes * 2);
  cache.put(new Sound("live", 1000));
  for (const id of ["a", "b", "c"]) cache.put(Sound.whole(id, { rate: 1000, samples: ramp(0, 10) }));
  assert.deepEqual([...cache.sounds.keys()], ["live", "c"]);
  assert.equal(cache.get("a"), undefined);
  const small = new SoundCache(1);
  assert.equal(small.put(Sound.whole("a", { rate: 1000, samples: ramp(0, 10) })), small.get("a"));
});

test("getting a sound protects it from eviction", () => {
  const bytes = new Sound("x", 1000).samples.byteLength;
  const cache = new SoundCache(bytes * 2);
  for (const id of ["a", "b"]) cache.put(Sound.whole(id, { rate: 1000, samples: ramp(0, 10) }));
  cache.get("a");
  cache.put(Sound.whole("c", { rate: 1000, samples: ramp(0, 10) }));
  assert.deepEqual([...cache.sounds.keys()], ["a", "c"]);
});

test("the meter rises at once, falls slowly, and holds the peak", () => {
  const meter = new Meter();
  const tone = (loudness) => new Float32Array(1000).fill(loudness);
  meter.hear(tone(0.1), 10000);
  near(meter.level, -20, 0.01);
  meter.hear(tone(0), 10000);
  near(meter.level, -22.4, 0.01);
  near(meter.held, -20, 0.01);
  for (let i = 0; i < 20; i++) meter.hear(tone(0), 10000);
  assert.ok(meter.held < -50);
  meter.hear(tone(2), 10000);
  assert.deepEqual([meter.level, meter.held], [0, 0], "no more than full scale");
  assert.deepEqual([onMeter(-60), onMeter(-30), onMeter(0)], [0, 0.5, 1]);
});

test("a clipped sample lights the clipping lamp for a while", () => {
  const meter = new Meter();
  const quiet = new Float32Array(1000).fill(0.9);
  meter.hear(quiet, 10000);
  assert.equal(meter.clipping, false);
  meter.hear(Float32Array.of(0, -1, 0), 10000);
  assert.equal(meter.clipping, true);
  for (let i = 0; i < 21; i++) meter.hear(quiet, 10000);
  assert.deepEqual([meter.clipping, meter.clips], [false, 1]);
});

test("a recording is never longer than its limit", () => {
  const recording = new Recording(1000, 2);
  for (let i = 0; i < 30; i++) recording.hear(new Float32Array(128).fill(0.25));
  assert.deepEqual([recording.length, recording.full, recording.seconds], [2000, true, 2]);
  const { rate, samples } = decodeWav(recording.wav());
  assert.equal(rate, 1000);
  assert.ok(samples.length === 2000 && samples.every((value) => value === 8192));
});

test("the countdown reports three, two, one, and completes", async () => {
  const said = [];
  const waits = [];
  const countdown = new Countdown(3, (left) => said.push(left), (done) => waits.push(done));
  while (waits.length) waits.shift()();
  assert.equal(await countdown.over, true);
  assert.deepEqual(said, [3, 2, 1]);
});

test("a cancelled countdown reports nothing more", async () => {
  const said = [];
  const waits = [];
  const countdown = new Countdown(3, (left) => said.push(left), (done) => waits.push(done));
  countdown.cancel();
  while (waits.length) waits.shift()();
  assert.equal(await countdown.over, false);
  assert.deepEqual(said, [3]);
});

test("the microphone is opened without processing", () => {
  const { echoCancellation, noiseSuppression, autoGainControl, channelCount } = EXACT;
  assert.deepEqual([echoCancellation, noiseSuppression, autoGainControl, channelCount], [false, false, false, 1]);
});

test("a missing microphone is explained with a remedy", () => {
  const location = { port: "7860" };
  const page = { navigator: {}, location };
  assert.equal(obstacle({ ...page, navigator: { mediaDevices: { getUserMedia() {} } }, isSecureContext: true }), "");
  assert.match(obstacle({ ...page, isSecureContext: false }), /http:\/\/localhost:7860 .* https.* choose a file/);
  assert.match(obstacle({ ...page, isSecureContext: true }), /no microphone/);
  assert.match(obstacle({ ...page, location: { port: "" }, isSecureContext: false }), /http:\/\/localhost on/);
});

test("each error of the microphone has a message", () => {
  for (const name of ["NotAllowedError", "NotFoundError", "NotReadableError", "OverconstrainedError"]) {
    assert.match(refusal({ name, message: "?" }), /^The |^This |^No /);
    assert.doesNotMatch(refusal({ name, message: "?" }), /\?/);
  }
  assert.equal(refusal({ name: "AbortError", message: "it broke" }), "The microphone could not be started. Record again, or choose a file.");
});

test("seconds are formatted in the reader's language", () => {
  const languages = ["en", "de", "es", "fr", "ja", "zh-CN"];
  const said = ["2.8\u00a0s", "2,8\u00a0s", "2,8\u00a0s", "2,8\u00a0s", "2.8\u00a0秒", "2.8\u00a0秒"];
  assert.deepEqual(languages.map((language) => secondsOf(2.84, language)), said);
  assert.equal(secondsOf(3, "en"), "3.0\u00a0s");
});

test("clock times, lengths and the first-sound delay", () => {
  assert.deepEqual([0, 59.9, 61, 3599, 7384].map(clock), ["0:00", "0:59", "1:01", "59:59", "2:03:04"]);
  assert.deepEqual([0.44, 9.94, 9.96, 75].map((time) => lengthOf(time, "de")), ["0,4\u00a0s", "9,9\u00a0s", "0:10", "1:15"]);
  assert.equal(lengthOf(7, "en", 0), "7\u00a0s");
  assert.equal(firstSound({ clickedAt: 100, firstSoundAt: null }), null);
  assert.equal(firstSound({ clickedAt: 100, firstSoundAt: 312.4 }), 212);
});
