// The server functions for clips, and clips whose files the server has deleted.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { english } from "../helpers.js";
import { ClipServer } from "../../../../web/static/new_voice/clips/clip_server.js";
import { Clip, Clips } from "../../../../web/static/new_voice/clips/clips.js";
import { endSaving, sendForm } from "../../../../web/static/new_voice/sent_form.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("clip", "connection"), "en");

let gone; // paths whose files the server has deleted
let called; // [function, path or paths]
let uploaded; // files
let told; // the errors after files were uploaded again
let functions;
let clips;
let server;

beforeEach(() => {
  [called, uploaded, told, gone] = [[], [], [], new Set()];
  const about = (name) => async (value) => {
    called.push([name, value.path ?? value.paths]);
    if (name === "keep_clips") return { gone: value.paths.filter((path) => gone.has(path)) };
    return gone.has(value.path) ? { problem: "The clip is gone." } : { about: value };
  };
  functions = Object.fromEntries(["keep_clips", "forget_clip", "examine_clip", "clip_peaks"].map((name) => [name, about(name)]));
  clips = new Clips();
  for (const name of ["a", "b"]) clips.add(new Clip({ file: name, path: `/${name}`, name, seconds: 5 }));
  const send = async (file) => {
    uploaded.push(file);
    await new Promise(setImmediate);
    if (file === "refused") throw new Error("The disk is full.");
    return `/new ${file}`;
  };
  server = new ClipServer(functions, { send }, clips, (errors) => told.push(errors.map(({ message }) => message)));
});

test("a function is called again when the file of its clip was deleted, and is uploaded first", async () => {
  gone.add("/a");
  const answer = await server.ask("examine_clip", { path: "/a", start: 1 });
  assert.deepEqual(answer, { about: { path: "/new a", start: 1 } });
  assert.deepEqual(called, [["examine_clip", "/a"], ["keep_clips", ["/a", "/b"]], ["examine_clip", "/new a"]]);
  assert.deepEqual([uploaded, told, clips.paths], [["a"], [[]], ["/new a", "/b"]]);
});

test("a problem of a clip whose file is there, or that is no clip of this page, is the answer", async () => {
  functions.examine_clip = async ({ path }) => ({ problem: `No speech in ${path}.` });
  assert.deepEqual(await server.ask("examine_clip", { path: "/a" }), { problem: "No speech in /a." });
  assert.deepEqual([called, uploaded], [[["keep_clips", ["/a", "/b"]]], []]);
  assert.deepEqual(await server.ask("examine_clip", { path: "/other" }), { problem: "No speech in /other." });
  assert.equal(called.length, 1);
});

test("a function without an answer has a problem, whether the connection or the server has failed", async () => {
  functions.check_words = async () => undefined;
  assert.match((await server.ask("check_words", { words: "Once." })).problem, /^The server does not answer\./);
  functions.check_words = () => Promise.reject(new Error("500"));
  assert.deepEqual(await server.ask("check_words", { words: "Once." }), { problem: "The server could not check the clip. Try again." });
});

test("two functions are called at a time", async () => {
  const waiting = [];
  functions.examine_clip = () => new Promise((resolve) => waiting.push(resolve));
  const answers = [1, 2, 3].map(() => server.ask("examine_clip", { path: "/a" }));
  assert.equal(waiting.length, 2);
  waiting[0]({});
  await answers[0];
  await new Promise(setImmediate);
  assert.equal(waiting.length, 3);
});

test("files are kept once at a time, and the errors of those that are not taken again are told", async () => {
  clips.list[0].file = "refused";
  for (const path of clips.paths) gone.add(path);
  const [one, other] = [server.keepFiles(), server.keepFiles()];
  assert.equal(one, other);
  await one;
  assert.deepEqual([called.length, uploaded, told, clips.paths], [1, ["refused", "b"], [["The disk is full."]], ["/a", "/new b"]]);
  gone.clear();
  await server.keepFiles();
  assert.deepEqual([called.length, told.length], [2, 1], "nothing was uploaded");
  clips.list = [];
  await server.keepFiles();
  await server.uploadAgain([]);
  assert.deepEqual([called.length, told.length], [2, 1], "there are no files");
});

test("a clip is forgotten with those that it was repaired from, unless it is alone or its voice is being saved", async () => {
  const raw = new Clip({ path: "/raw", name: "raw", seconds: 5 });
  const repaired = new Clip({ path: "/repaired", name: "repaired", seconds: 5, before: raw });
  const forget = (...how) => {
    called.length = 0;
    server.forget(repaired, ...how);
    return called.map(([, path]) => path);
  };
  assert.deepEqual(forget(), ["/repaired", "/raw"]);
  assert.deepEqual(forget({ alone: true }), ["/repaired"]);
  globalThis.window = { repriseRecorder: { ready: async () => ({ clips: [{ path: "/repaired" }] }) } };
  await sendForm(null);
  assert.deepEqual(forget(), ["/raw"]);
  globalThis.document = { querySelector: () => null };
  endSaving();
  assert.deepEqual(forget(), ["/repaired", "/raw"]);
});

test("the peaks of a clip are the server's", async () => {
  assert.deepEqual(await server.peaksOf("/a"), { about: { path: "/a" } });
  assert.deepEqual(called, [["clip_peaks", "/a"]]);
});

test("the server deletes the files of a page that is closed", () => {
  const sent = [];
  globalThis.window = { gradio_config: { root: "/studio" } };
  globalThis.fetch = async (url, { method, keepalive, body }) => sent.push([url, method, keepalive, JSON.parse(body)]);
  server.discardFiles();
  assert.deepEqual(sent, [["/studio/gradio_api/upload", "DELETE", true, ["/a", "/b"]]]);
  clips.list = [];
  server.discardFiles();
  assert.equal(sent.length, 1);
});
