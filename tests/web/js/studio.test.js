// The voice rail, portraits, word timing, and playback speed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english, heard, largestStep } from "./helpers.js";
import { PlayoutBuffer } from "../../../web/static/player/playout/playout_buffer.js";
import { expectedOf } from "../../../web/static/player/details.js";
import { Sound } from "../../../web/static/player/sound_cache.js";
import { piecesOf, WordClock } from "../../../web/static/player/word_clock.js";
import { landing } from "../../../web/static/script/card/card_drag.js";
import { wordOf } from "../../../web/static/shell/dictionary.js";
import { saysOf } from "../../../web/static/shell/recogniser.js";
import { TakeList } from "../../../web/static/speak/takes/take_list.js";
import { railOrder } from "../../../web/static/speak/voices/voice_rail.js";
import { initialsOf } from "../../../web/static/library/portraits.js";
import { useWords } from "../../../web/static/ui/words.js";

test("favourites come first, then the model's voices, own voices and samples, each by name", () => {
  const voices = [
    { name: "Zoe", shared: false }, { name: "Adam", shared: true }, { name: "Ben", shared: true, favourite: true },
    { name: "Anna 10", shared: false }, { name: "Anna 9", shared: false }, { name: "Ryan", shared: true, built_in: true },
    { name: "Vivian", shared: true, built_in: true, favourite: true },
  ];
  const names = railOrder(voices, "en").map(({ name }) => name);
  assert.deepEqual(names, ["Ben", "Vivian", "Ryan", "Anna 9", "Anna 10", "Zoe", "Adam"]);
});

test("takes requested together form a group until one is kept", () => {
  const list = new TakeList({ getItem: () => null, setItem: () => {} });
  const known = (...ids) => list.answer({ takes: ids.map((id) => ({ id })), gone: [] });
  list.add("old");
  list.add("one", 200, null, "g");
  known("old", "one");
  assert.deepEqual(list.group, [], "one take is no group");
  list.add("two", null, null, "g");
  list.add("three", null, null, "g");
  known("two", "three");
  assert.deepEqual(list.group.map(({ id }) => id), ["one", "two", "three"]);
  list.ungroup("two");
  assert.deepEqual(list.group.map(({ id }) => id), ["one", "three"]);
  list.answer({ takes: [], gone: ["one", "three"] });
  assert.deepEqual([list.group, list.ids], [[], ["two", "old"]]);
});

test("a dragged card lands at the drop line", () => {
  assert.deepEqual([landing(0, 0), landing(0, 1), landing(0, 3), landing(3, 0), landing(2, 3)], [0, 0, 2, 0, 2]);
});

test("a selection is a word without punctuation around it, or a few words", () => {
  const text = "We met (Dr. Nguyễn), who spoke at length of SQL;\nand more.";
  const of = (part) => wordOf(text, text.indexOf(part), text.indexOf(part) + part.length);
  assert.equal(of("(Dr. Nguyễn), "), "Dr. Nguyễn");
  assert.equal(of("SQL;"), "SQL");
  assert.equal(of("; \n"), "", "only punctuation");
  assert.equal(of("SQL;\nand"), "", "not across lines");
  assert.equal(of("We met (Dr. Nguyễn), who"), "We met (Dr. Nguyễn), who");
  assert.equal(of("We met (Dr. Nguyễn), who spoke"), "", "not a sentence");
});

test("initials are taken from the first and the last name, in any script", () => {
  const names = ["Anna", "anna maria van dam", "小林", "Élodie (copy)", " – ", "Ben 2", "“Zoe”", "– 👩‍👧 🎧", "🇫🇷 Léa"];
  assert.deepEqual(names.map(initialsOf), ["A", "AD", "小", "ÉC", "?", "B2", "Z", "👩‍👧", "L"]);
});

test("words are timed by their share of the sound, without silences", () => {
  const { pieces } = piecesOf("[pause:2] Good morning, Anna.");
  const said = pieces.filter(({ start }) => start !== undefined).map(({ text }) => text);
  assert.deepEqual(said, ["Good", "morning", "Anna"]);
  const places = ([first, , , next]) => [first.start, first.end, next.start, next.end];
  assert.deepEqual(places(piecesOf("Hi. Ben").pieces), [0, 5, 5, 9], "the last word of a sentence is longer");
  const clock = new WordClock("one two six");
  const word = (...when) => clock.pieces[clock.at(...when)]?.text;
  const peaks = [...Array(50).fill(0.5), ...Array(100).fill(0), ...Array(100).fill(0.5)]; // 1 s, 2 s of silence, 2 s
  const times = [0.5, 1.5, 2.9, 3.5, 4.5];
  assert.deepEqual(times.map((time) => word(time, peaks)), ["one", "one", "one", "two", "six"]);
  assert.equal(clock.at(0, peaks), -1, "nothing is said yet");
  assert.equal(new WordClock("one two six").at(0.9, peaks.slice(0, 50), 5), 0, "the rest is still to come");
});

test("words are timed by the model, and estimated after its last word", () => {
  const text = "😀 Well-known words, & more to come";
  const clock = new WordClock(text);
  const at = (part, begins, ends) => [[...text.slice(0, text.indexOf(part))].length, [...text.slice(0, text.indexOf(part) + part.length)].length, begins, ends];
  const known = [at("Well-known", 0.5, 1.5), at("words,", 2, 3), at("&", 3, 3.5)];
  const peaks = Array(50 * 6).fill(0.5);
  const word = (time, timed = known) => clock.pieces[clock.at(time, peaks, 0, timed)]?.text;
  const times = [0.4, 0.5, 1.4, 1.7, 2.5, 3.2, 3.6, 4.6, 5.9];
  const heard = [undefined, "Well", "known", "known", "words", "words", "more", "to", "come"];
  assert.deepEqual(times.map((time) => word(time)), heard);
  assert.deepEqual(times.toReversed().map((time) => word(time)), heard.toReversed(), "also backwards");
  assert.equal(word(1, known.slice(0, 1)), "known", "as soon as the times arrive");
  assert.equal(clock.at(1.6, peaks.slice(0, 75), 6, known.slice(0, 1)), clock.pieces.findIndex((p) => p.text === "known"), "no further than the sound so far");
});

test("the words of a take that was cut off stay at the last one that is heard", () => {
  const text = "The rain has stopped, and the first birds are singing again. ".repeat(8);
  const clock = new WordClock(text);
  const sound = Sound.whole("a", { rate: 8000, samples: new Int16Array(8000 * 4).fill(9000) });
  const known = ["The", "rain", "has", "stopped,", "and", "the"].map((word, i) => [text.indexOf(word), text.indexOf(word) + word.length, i * 0.5, i * 0.5 + 0.5]);
  const word = (time, words) => clock.at(time, sound.peaks.values, expectedOf(sound), words);
  const last = clock.pieces.findLastIndex(({ start }) => start !== undefined);
  const birds = clock.pieces.findIndex(({ text: piece }) => piece === "birds");
  for (const ending of ["cancelled", "disconnected", "error"]) {
    sound.facts = { text, ending };
    assert.ok(word(3.9, known) <= birds, "at the pace of the known words");
    assert.ok(word(3.9, known) >= clock.pieces.findIndex(({ text: piece }) => piece === "the"));
    assert.ok(word(3.9, []) < last / 5, "without known words: at the usual pace");
  }
  const whole = expectedOf(sound);
  sound.facts = { text, ending: "error", settings: { speed: 0.5 } };
  assert.equal(expectedOf(sound), 2 * whole);
  sound.facts = { text, ending: "end" };
  assert.equal(word(4, known), last);
});

test("speed changes the length but not the pitch", () => {
  const rate = 8000;
  // At 260 Hz, no step is by whole periods.
  const tone = Int16Array.from({ length: 2 * rate }, (_, i) => 12000 * Math.sin((2 * Math.PI * 260 * i) / rate));
  for (const speed of [0.5, 0.75, 1.25, 2]) {
    const buffer = new PlayoutBuffer(rate, { speed });
    buffer.write(0, tone, 0);
    buffer.finish();
    const out = heard(buffer, Math.ceil((2 * rate) / speed) + 1);
    assert.ok(buffer.ended, `at ${speed} it ends in time`);
    const middle = out.slice(rate / 4, rate / 2);
    const crossings = middle.slice(1).filter((value, i) => value >= 0 && middle[i] < 0).length;
    assert.ok(Math.abs(crossings - 65) <= 1, `at ${speed} a quarter of a second has ${crossings} periods, not 65`);
    const steps = middle.slice(1).map((value, i) => Math.abs(value - middle[i]));
    assert.ok(Math.max(...steps) < 0.08, `at ${speed} nothing clicks`);
    for (let at = 0; at < middle.length; at += 40) {
      const peak = Math.max(...middle.slice(at, at + 40).map(Math.abs));
      assert.ok(Math.abs(peak - 0.366) < 0.02, `at ${speed} a period has a peak of ${peak}, not 0.366`);
    }
  }
});

test("a change of speed continues at the same position", () => {
  const buffer = new PlayoutBuffer(8000);
  buffer.write(0, new Int16Array(8000).fill(1000), 0);
  heard(buffer, 800);
  buffer.setSpeed(2);
  heard(buffer, 800);
  assert.equal(buffer.position, 2400);
  buffer.setSpeed(1);
  heard(buffer, 100);
  assert.equal(buffer.position, 2500);
});

test("a change of speed does not click", () => {
  const rate = 8000;
  const tone = Int16Array.from({ length: 4 * rate }, (_, i) => 12000 * Math.sin((2 * Math.PI * 260 * i) / rate));
  for (const [before, after] of [[1, 1.5], [1.5, 1], [1.5, 1.25], [0.75, 1], [2, 1.95]]) {
    for (let moment = 2000; moment < 2200; moment += 21) {
      const buffer = new PlayoutBuffer(rate, { speed: before });
      buffer.write(0, tone, 0);
      const out = [...heard(buffer, moment)];
      buffer.setSpeed(after);
      out.push(...heard(buffer, 1000));
      assert.ok(largestStep(out.slice(1000)) < 0.1, `from ${before} to ${after}`);
    }
  }
});

test("a WAV has its origin tags after its samples", async () => {
  const { decodeWav, encodeWav } = await import("../../../web/static/sound/wav.js");
  const samples = Int16Array.from([1, -2, 3]);
  const tags = { artist: "Reprise", comment: "synthetic speech", date: "2026-01-31", other: "left out" };
  const file = encodeWav(samples, 22_050, tags);
  assert.equal(new DataView(file).getUint32(4, true), file.byteLength - 8);
  const written = new TextDecoder().decode(new Uint8Array(file, 50)).replaceAll("\0", ".");
  assert.equal(written, "LISTB...INFOIART\b...Reprise.ICMT\u0011...synthetic speech..ICRD\u000b...2026-01-31..");
  assert.deepEqual([...decodeWav(file).samples], [1, -2, 3]);
  assert.equal(encodeWav(samples, 22_050).byteLength, 50);
});

test("the recogniser's dialog describes the installation and checks the permission", () => {
  useWords(english("recogniser"), "en");
  const models = [{ name: "tiny", mb: 75 }, { name: "small", mb: 480 }];
  const state = { ready: false, allowed: true, step: null, part: "", model: "small", models, package_mb: 70 };
  const missing = saysOf(state, "tiny");
  assert.match(missing.now, /faster-whisper with what it needs \(about 70 MB\) and downloads its model \(75 MB\)/);
  assert.equal(missing.act, "Install");
  const guest = saysOf({ ...state, allowed: false }, "small");
  assert.match(guest.now, /pip install -r requirements-extra.txt/);
  assert.equal(guest.act, null);
  assert.deepEqual(saysOf({ ...state, step: "package", part: "ctranslate2" }, "tiny"), { now: "Installing ctranslate2…", act: null });
  assert.equal(saysOf({ ...state, step: "package" }, "tiny").now, "Installing faster-whisper…");
  assert.equal(saysOf({ ...state, step: "model" }, "tiny").act, null);
  const ready = { ...state, ready: true, here: true };
  assert.equal(saysOf(ready, "tiny").now, "The model “small” is ready to transcribe.");
  assert.deepEqual([saysOf(ready, "small").act, saysOf(ready, "tiny").act], [null, "Use this model (75 MB)"]);
  assert.equal(saysOf({ ...ready, allowed: false }, "tiny").act, null);
  const absent = saysOf({ ...ready, here: false }, "small");
  assert.match(absent.now, /The model “small” \(480 MB\) is not on this machine yet/);
  assert.equal(absent.act, "Use this model (480 MB)");
});
