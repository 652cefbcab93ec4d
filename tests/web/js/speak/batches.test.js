// Further takes of a text, with a player and a voice that are driven by the test.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Batches, groupOf } from "../../../../web/static/speak/takes/batches.js";

globalThis.window = globalThis;
const arrived = () => new Promise(setImmediate);

let sent; // events to the server
let stop; // what the player's Stop does; null if there is nothing to stop
let pick; // picks a voice
let batches;
beforeEach(() => {
  [sent, stop] = [[], null];
  globalThis.document = new EventTarget();
  window.reprisePlayer = { stats: { ticket: "a" }, activity: (_, act) => (stop = act) };
  const picked = new Promise((resolve) => (pick = resolve));
  batches = new Batches((event, { tickets }) => sent.push([event, ...tickets]), () => picked);
});

test("further takes are requested with tickets of their group, and can be stopped until they are over", async () => {
  pick();
  batches.begun("a", 2);
  await arrived();
  assert.deepEqual([sent, batches.group], [[["speak_more", "a-2", "a-3"]], "a"]);
  assert.equal(groupOf("a-3"), "a");
  stop();
  assert.deepEqual(sent[1], ["stop_speech", "a-2", "a-3"]);
  batches.end("a");
  assert.equal(stop, null);
});

test("a single take requests nothing and has no group", async () => {
  pick();
  batches.begun("a", 2);
  await arrived();
  window.reprisePlayer.stats.ticket = "b";
  batches.begun("b", 0);
  await arrived();
  assert.deepEqual([sent.length, batches.group], [1, null]);
});

test("further takes wait for a voice", async () => {
  batches.begun("a", 1);
  await arrived();
  assert.deepEqual([sent, typeof stop, batches.group], [[], "function", "a"]);
  pick();
  await arrived();
  assert.deepEqual(sent, [["speak_more", "a-2"]]);
});

test("further takes are not requested if the first one is stopped while it waits for a voice", async () => {
  batches.begun("a", 1);
  window.reprisePlayer.stats.ticket = null;
  pick();
  await arrived();
  assert.deepEqual([sent, stop], [[], null]);
});

test("all groups are stopped together, and are over if their event fails", () => {
  batches.begun("a", 1);
  batches.begun("b", 3);
  stop();
  const stops = [["stop_speech", "a-2"], ["stop_speech", "b-2", "b-3", "b-4"]];
  assert.deepEqual(sent, stops);
  batches.failed();
  assert.deepEqual(sent, [...stops, ...stops], "the server may be speaking them");
  assert.equal(stop, null);
});

test("an event that the server has not taken ends only its group", () => {
  batches.begun("a", 1);
  batches.begun("b", 2);
  const unsent = (detail) => document.dispatchEvent(Object.assign(new Event("reprise:unsent"), { detail }));
  unsent(null); // another event
  unsent({ tickets: ["b-2", "b-3"] });
  batches.failed();
  assert.deepEqual(sent, [["stop_speech", "b-2", "b-3"]], "its answer may be lost");
  stop();
  assert.deepEqual(sent.slice(1), [["stop_speech", "a-2"]]);
  batches.failed();
  assert.deepEqual([sent.length, stop], [3, null], "the messages about all events are lost");
});
