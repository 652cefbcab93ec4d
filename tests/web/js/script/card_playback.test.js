// Playing cards and their takes, over a player and a server that the test drives.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { ScriptCopy } from "../../../../web/static/script/cards.js";
import { CardPlayback } from "../../../../web/static/script/playback/card_playback.js";
import { encodeWav } from "../../../../web/static/sound/wav.js";

const stored = new Map();
globalThis.localStorage = { getItem: (key) => stored.get(key) ?? null, setItem: (key, value) => stored.set(key, value), removeItem: (key) => stored.delete(key) };
globalThis.fetch = async (url) => new Response(encodeWav(new Int16Array(8), 8), { status: url === "/broken" ? 500 : 200 });
let listeners; // by event
globalThis.document = { addEventListener: (type, listener) => (listeners[type] = listener) };

let asked; // requests without an answer
let player; // what the player was told
let seen; // what was brought into view, and which sound is marked
let outcome; // resolves to whether a sound is played
let editor;
let playback;

globalThis.window = {
  reprisePlayer: {
    playing: null,
    wake: () => player.push("wake"),
    pause: () => player.push("pause"),
    async play(sound, wav) {
      player.push(`play ${sound}`);
      await wav.catch(() => {});
      return outcome();
    },
    toggle: (sound, source) => player.push([sound, source]),
  },
};

const card = (id) => ({ id, pause: 0, state: "spoken", take: `take of ${id}`, sound: `sound of ${id}` });
const [a, b] = [card("a"), card("b")];

beforeEach(() => {
  [asked, player, seen, listeners] = [[], [], [], {}];
  stored.clear();
  window.reprisePlayer.playing = null;
  outcome = async () => true;
  const script = new ScriptCopy("s");
  script.apply({ script: "s", since: "", version: "1", order: ["a", "b"], cards: [a, b], head: { running: false } });
  editor = {
    script,
    told: 0,
    view: { along: { checked: null }, isDeleted: () => false, bringUp: (id) => seen.push(id), sounds: (sound) => seen.push(sound) },
    ask: (what, values, how) => new Promise((resolve) => asked.push({ what, values, how, resolve })),
    tell: () => (editor.told += 1),
  };
  playback = new CardPlayback(editor);
});

const soon = () => new Promise((resolve) => setImmediate(resolve));

// Answers the oldest request.
async function answer(value) {
  asked.shift().resolve(value);
  await soon();
}

const sound = (url = "/wav") => ({ url, facts: { url } });
const happens = (type, detail) => listeners[`reprise:${type}`]({ detail });

test("a card is played, and paused when it is pressed again", async () => {
  playback.toggle(a);
  assert.deepEqual([asked[0].values, asked[0].how], [{ card: "a", take: "take of a" }, { quiet: true }]);
  await answer(sound());
  assert.deepEqual([player, seen], [["wake", "play sound of a"], ["a"]]);
  window.reprisePlayer.playing = a.sound;
  playback.toggle(a);
  assert.deepEqual([player.slice(2), asked.length], [["wake", "pause"], 0]);
});

test("of two cards that are pressed, only the later one is played", async () => {
  playback.toggle(a);
  playback.toggle(b);
  await answer(sound());
  assert.deepEqual(seen, []);
  await answer(sound());
  assert.deepEqual([seen, player.at(-1)], [["b"], "play sound of b"]);
});

test("the sound of the next card is requested once, in advance", async () => {
  playback.playAll();
  await answer(sound());
  happens("stopped", { id: a.sound, reason: "ended" });
  assert.deepEqual([asked.length, asked[0].values.card], [1, "b"]);
  playback.play(b);
  assert.equal(asked.length, 1);
  await answer(sound());
});

test("a sound that could not be fetched is requested again", async () => {
  for (const value of [null, sound("/broken")]) {
    playback.toggle(a);
    await answer(value);
  }
  await soon();
  playback.toggle(a);
  playback.toggle(b);
  assert.equal(asked.length, 2);
  await answer(null);
  playback.toggle(b);
  assert.equal(asked.length, 1, "the failure of another sound does not matter");
});

test("a card that cannot be played ends continuous playback", async () => {
  for (const [value, works] of [[null, true], [sound(), false], [sound(), true]]) {
    outcome = async () => works;
    playback.ready = {};
    playback.playAll();
    await answer(value);
    assert.equal(playback.listening.heard !== null, value !== null && works);
  }
});

test("a failure of a card does not end the playback of a later one", async () => {
  const outcomes = [];
  outcome = () => new Promise((resolve) => outcomes.push(resolve));
  playback.toggle(a);
  await answer(sound());
  playback.toggle(b);
  await answer(sound());
  outcomes[0](false);
  await soon();
  assert.equal(playback.listening.heard.id, "b");
});

test("a take is played by its own address; without one the request has told why", async () => {
  playback.toggleTake(a, { id: "old", sound: "old sound" });
  const [[id, source]] = player;
  assert.equal(id, "old sound");
  for (const [value, expected] of [[sound(), { wav: "/wav", facts: { url: "/wav" } }], [null, undefined]]) {
    const found = source();
    assert.deepEqual(asked[0].values, { card: "a", take: "old" });
    await answer(value);
    assert.deepEqual(await found, expected);
  }
});

test("whether cards follow each other is kept in this browser", () => {
  const state = () => [editor.view.along.checked, playback.listening.on];
  assert.deepEqual([state(), stored.size], [[true, true], 0]);
  playback.listening.begin("missing");
  playback.listening.awaited = "a";
  playback.goAlong(false);
  assert.deepEqual([state(), playback.listening.awaited], [[false, false], null]);
  playback = new CardPlayback(editor);
  assert.deepEqual(state(), [false, false]);
  playback.playAll();
  assert.deepEqual(state(), [true, true]);
  playback = new CardPlayback(editor);
  assert.deepEqual(state(), [true, true]);
});

test("a recording and other sounds end continuous playback, and the card that sounds is marked", () => {
  const begin = () => playback.playAll();
  begin();
  happens("playing", { id: a.sound });
  assert.equal(playback.listening.heard.id, "a");
  happens("playing", { id: "take of the list" });
  happens("stopped", { id: "take of the list", reason: "ended" });
  assert.deepEqual([playback.listening.heard, seen], [null, [a.sound, "take of the list", null]]);
  begin();
  happens("recording");
  assert.deepEqual([playback.listening.heard, editor.told], [null, 4]);
});
