// Adding files and recordings to the clips, over uploads and a server that the test answers for.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { english } from "../helpers.js";
import { ClipImporter } from "../../../../web/static/new_voice/clips/clip_importer.js";
import { Clip, Clips, MAX_CLIPS } from "../../../../web/static/new_voice/clips/clips.js";
import { encodeWav } from "../../../../web/static/sound/wav.js";
import { useWords } from "../../../../web/static/ui/words.js";

const LONGEST = 90; // seconds
const RATE = 10; // Hz

useWords(english("clip", "player"), "en");
const { setTimeout } = globalThis;
globalThis.setTimeout = (...timer) => setTimeout(...timer).unref(); // the limit for reading a header does not keep this process alive

// The lengths of files whose content is their name. The browser reads them, and decodes all formats but unknown ones.
const lengths = new Map();
const unknown = new Set();
const addresses = new Set(); // that are not released
URL.createObjectURL = ({ name }) => addresses.add(name) && name;
URL.revokeObjectURL = (name) => addresses.delete(name);
globalThis.Audio = class {
  set src(name) {
    this.duration = lengths.get(name) ?? NaN;
    queueMicrotask(() => this.onloadedmetadata());
  }
  removeAttribute() {}
};
globalThis.OfflineAudioContext = class {
  async decodeAudioData(content) {
    if (unknown.has(content)) throw new Error("unknown format");
    const seconds = lengths.get(content) ?? (content.byteLength - 44) / 2 / RATE; // of a WAV file
    const samples = new Float32Array(seconds * RATE);
    return { duration: seconds, sampleRate: RATE, length: samples.length, numberOfChannels: 1, getChannelData: () => samples };
  }
};
const wav = (seconds) => encodeWav(new Int16Array(seconds * RATE), RATE);
globalThis.fetch = async (url) => new Response(wav(3), { status: url === "gone" ? 404 : 200 });

let clips;
let uploads; // those under way: { file, resolve, reject }
let said; // what the view has shown, with its state
let cancel; // how the upload under way is cancelled: an AbortController; null for none
let forgotten; // paths that the server was told to forget
let answers; // of the server, by function
let importer;

const view = {
  say: (text, state) => said.push([state, text]),
  refuse: (text) => said.push(["refused", text]) && text,
  invite: () => said.push(["empty", ""]),
  offerCancel: (sending) => (cancel = sending),
  showClips() {},
};
const server = {
  ask: async (name) => answers[name],
  call: async (name, { path }) => name === "forget_clip" && forgotten.push(path),
  forget: ({ path }) => forgotten.push(path),
  peaksOf: async () => answers.clip_peaks,
};

beforeEach(() => {
  clips = new Clips();
  [uploads, said, forgotten] = [[], [], []];
  answers = { clip_peaks: { seconds: 2, peaks: [0] } };
  lengths.clear();
  unknown.clear();
  importer = new ClipImporter({
    clips, server, view,
    uploads: { send: (sent) => new Promise((resolve, reject) => uploads.push({ file: sent, resolve, reject })) },
    limits: { longest: LONGEST, max_mb: 20 },
    added: (_clip, message) => view.say(message, "ready"),
  });
});

const soon = () => new Promise((resolve) => setImmediate(resolve));
const file = (name, { seconds = 5, size = 1 } = {}) => {
  lengths.set(name, seconds);
  return { name, size, arrayBuffer: async () => name };
};
const names = () => clips.list.map(({ name }) => name);
const last = () => said.at(-1);

// Lets the oldest upload arrive; its path is the name of its file.
async function arrive() {
  const { file: sent, resolve } = uploads.shift();
  resolve(`/${sent.name}`);
  await soon();
}

async function add(...files) {
  importer.addFiles(files);
  await soon();
}

test("files are added one after the other, in order", async () => {
  await add(file("a"), file("b"));
  await add(file("c"));
  assert.equal(uploads.length, 1);
  await arrive();
  assert.deepEqual([names(), uploads.length, uploads[0].file.name], [["a"], 1, "b"]);
  await arrive();
  assert.ok(cancel);
  await arrive();
  assert.deepEqual([names(), clips.paths, last()], [["a", "b", "c"], ["/a", "/b", "/c"], ["ready", "c is ready."]]);
  assert.deepEqual([cancel, addresses.size], [null, 0]);
});

test("refused files do not hold up the others, and are named at the end", async () => {
  await add(file("a", { size: 21 * 2 ** 20 }), file("b"), file("c"));
  uploads.shift().reject(new Error("The disk is full."));
  await soon();
  await arrive();
  assert.deepEqual(names(), ["c"]);
  assert.deepEqual(last(), ["refused", "a is larger than 20 MB. A minute of sound is plenty. b: The disk is full."]);
});

test("no more than six clips are added, but a clip is replaced by its new recording", async () => {
  for (let i = 0; i < MAX_CLIPS; i++) clips.add(new Clip({ path: `/${i}`, name: `${i}`, seconds: 3, recorded: true }));
  const [former] = clips.list;
  await add(file("more"));
  assert.deepEqual([uploads.length, last()[0]], [0, "refused"]);
  importer.addRecording({ file: file("again"), more: { name: "again", instead: former, recorded: true } });
  await soon();
  await arrive();
  assert.deepEqual([names(), forgotten, clips.unsent], [["again", "1", "2", "3", "4", "5"], ["/0"], []]);
});

test("a recording is kept when the server refuses it, a file is not", async () => {
  const recording = { file: file("one"), more: { name: "one", recorded: true } };
  importer.addRecording(recording);
  await add(file("b"));
  uploads.shift().reject(new Error("The disk is full."));
  await soon();
  assert.deepEqual(last(), ["uploading", "Uploading…"], "of the next file");
  uploads.shift().reject(new Error("The disk is full."));
  await soon();
  assert.deepEqual([clips.unsent, names()], [[recording], []]);
  const kept = "The disk is full. The recording is kept in this page.";
  assert.deepEqual(said.filter(([state]) => state === "refused"), [["refused", "The disk is full."], ["refused", kept], ["refused", "The disk is full."]]);
  assert.deepEqual(await importer.all(), [recording]);
});

test("the clips are complete when what is being added now has been added", async () => {
  await add(file("a"));
  let all = null;
  importer.all().then((found) => (all = found));
  await soon();
  assert.equal(all, null);
  await arrive();
  assert.deepEqual(all, clips.list);
});

test("an upload whose sound cannot be read is forgotten", async () => {
  unknown.add("a");
  answers.clip_peaks = { problem: "No sound." };
  await add(file("a"));
  await arrive();
  assert.deepEqual([forgotten, names(), last()], [["/a"], [], ["refused", "No sound."]]);
});

test("a long file is cut, and each part keeps its transcript", async () => {
  await add(file("book", { seconds: 200, size: 21 * 2 ** 20 }));
  await arrive();
  const [first] = clips.list;
  assert.deepEqual([first.seconds, first.cutAt, first.file.type], [90, 0, "audio/wav"]);
  assert.match(last()[1], /\b3:20\b.*\b0:00\b.*\b1:30\b/);
  first.words = "Chapter one.";
  importer.choosePart(first, 90);
  await soon();
  await arrive();
  const [second] = clips.list;
  assert.deepEqual([clips.list.length, second.cutAt, second.words, forgotten], [1, 90, "", ["/book.wav"]]);
  importer.choosePart(second, 0);
  await soon();
  await arrive();
  assert.deepEqual([clips.list[0].cutAt, clips.list[0].words], [0, "Chapter one."]);
  importer.choosePart(second, 90);
  await soon();
  assert.deepEqual([clips.list.length, uploads.length], [1, 0], "the clip is not there any more");
  await add(file("library", { seconds: 601 }));
  assert.match(last()[1], /10 minutes/);
});

test("a part or repair of a clip that was removed meanwhile is no clip, a new recording is one", async () => {
  const whole = new Clip({ path: "/whole", name: "whole", seconds: 3, cutFrom: { transcripts: new Map() } });
  const ways = {
    part: [{ cutFrom: {} }, []],
    repair: [{ before: whole }, []],
    recording: [{ recorded: true }, ["recording"]],
  };
  for (const [name, [more, left]] of Object.entries(ways)) {
    clips.list = [whole];
    forgotten = [];
    const done = importer.add(file(name), { name, instead: whole, ...more });
    await soon();
    clips.remove(whole);
    await arrive();
    assert.deepEqual([await done, names(), forgotten], ["", left, left.length ? [] : [`/${name}`]], name);
    assert.equal(last()[0], left.length ? "ready" : "empty");
  }
});

test("a repaired clip keeps its transcript and the clip that it was made of", async () => {
  const raw = new Clip({ path: "/raw", name: "raw", seconds: 3, words: "Once.", recorded: true });
  clips.add(raw);
  answers.repair_clip = { wav: btoa(String.fromCharCode(...new Uint8Array(wav(3)))) };
  importer.repair(raw, "level");
  await soon();
  await arrive();
  const [{ before, words, recorded, seconds }] = clips.list;
  assert.deepEqual([before, words, recorded, seconds, forgotten], [raw, "Once.", true, 3, []]);
  assert.deepEqual(await clips.list[0].file.arrayBuffer(), wav(3));
  assert.deepEqual(last(), ["ready", "raw is repaired. Listen to check that you like it."]);
});

test("the repair of a part that has changed or is gone, or that the server could not do, adds nothing", async () => {
  const raw = new Clip({ path: "/raw", name: "raw", seconds: 3 });
  clips.add(raw);
  const ways = [[{ problem: "No." }, () => {}, "refused"], [{ wav: "" }, () => raw.trim.move("end", 2), "empty"], [{ wav: "" }, () => clips.remove(raw), "empty"]];
  for (const [answer, change, state] of ways) {
    answers.repair_clip = answer;
    importer.repair(raw, "level");
    change();
    await soon();
    assert.deepEqual([uploads.length, last()[0]], [0, state]);
  }
});

test("a saved voice's clips take the place of what there was, and a clip that is gone is named", async () => {
  await add(file("a"));
  const stored = [{ url: "gone", name: "lost", words: "" }, { url: "there", name: "kept", words: "Once." }];
  importer.addStored(stored, async () => (clips.list = []));
  await arrive();
  await soon();
  assert.deepEqual(said.filter(([state]) => state === "refused").length, 1);
  await arrive();
  assert.deepEqual([names(), clips.list[0].words], [["kept"], "Once."]);
});
