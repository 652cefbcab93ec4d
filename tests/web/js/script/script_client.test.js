// Requests about the list and the open script, what their answers change, and when the page polls.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { english } from "../helpers.js";
import { ScriptCopy } from "../../../../web/static/script/cards.js";
import { ScriptClient } from "../../../../web/static/script/script_client.js";
import { useWords } from "../../../../web/static/ui/words.js";

const LIMIT = 20; // ms for an answer
const words = english("script");
const LOST = words["script.lost"];

useWords(words, "en");
const timers = new Map(); // { act, ms } by number
let timersMade = 0;
globalThis.setTimeout = (act, ms) => timers.set(++timersMade, { act, ms }) && timersMade;
globalThis.clearTimeout = (timer) => timers.delete(timer);

let sent; // requests
let shown; // what the page was told
let page;
let client;

beforeEach(() => {
  [sent, shown] = [[], []];
  timers.clear();
  page = {
    lost: false,
    isSeen: true,
    view: { offer: (voices) => shown.push(["voices", voices]) },
    say(text, kind = "good") {
      page.lost = text === LOST;
      shown.push([kind, text]);
    },
    showList: () => shown.push(["list", client.scripts.length]),
    showChanges: ({ changed, moved }) => shown.push(["cards", changed.length, moved]),
    close() {
      client.script = null;
      shown.push(["closed"]);
    },
  };
  client = new ScriptClient((request) => sent.push(request), page, { timeout: LIMIT });
});

const soon = () => new Promise((resolve) => setImmediate(resolve));
const patch = (more = {}) => ({ script: "s", since: "", version: "1", order: ["a"], cards: [{ id: "a" }], head: { name: "Play", running: false }, ...more });

// Answers the request that is open.
async function answer(value = {}) {
  await soon();
  client.requests.receive({ ...value, number: sent.at(-1).number });
  await soon();
}

const delays = () => [...timers.values()].map(({ ms }) => ms);

// Runs the timer that has waited this long.
async function elapse(ms) {
  const [timer, { act }] = [...timers].find(([, planned]) => planned.ms === ms);
  timers.delete(timer);
  act();
  await soon();
}

// Opens a script. head: more of what the server says of it.
async function open(head = {}) {
  client.script = new ScriptCopy("s");
  client.ask("open");
  await answer({ state: patch({ head: { name: "Play", running: false, ...head } }) });
  shown.length = 0;
}

test("a request tells what this page has of the open script", async () => {
  client.ask("list");
  await answer();
  await open();
  client.ask("speak", { card: "a" });
  await answer();
  const [first, , last] = sent.map(({ page: from, number: _number, ...request }) => ({ ...request, from: typeof from }));
  assert.deepEqual(first, { do: "list", script: "", version: "", values: {}, from: "string" });
  assert.deepEqual(last, { do: "speak", script: "s", version: "1", values: { card: "a" }, from: "string" });
});

test("patches are applied and shown, and one that does not fit is replaced by the whole script", async () => {
  await open();
  client.ask("rename");
  await answer({ state: patch({ since: "1", version: "2", order: null }), voices: ["v"] });
  assert.deepEqual(shown, [["voices", ["v"]], ["cards", 1, false], ["good", ""]]);
  client.ask("rename");
  await answer({ state: patch({ since: "7", version: "8" }) });
  await soon();
  assert.deepEqual([sent.at(-1).do, sent.at(-1).version, shown.length], ["open", "", 4]);
});

test("an answer about a script that was left meanwhile changes nothing but the list", async () => {
  await open();
  const asked = client.ask("rename");
  await soon();
  client.script = new ScriptCopy("other");
  await answer({ state: patch({ since: "1", version: "2" }), scripts: [{ id: "s" }] });
  assert.ok(await asked);
  assert.deepEqual([shown, client.script.head], [[["list", 1], ["good", ""]], null]);
  assert.equal(sent.at(-1).do, "rename", "nothing is fetched again");
});

test("a script that is gone is closed, and is named if it was shown", async () => {
  for (const wasShown of [true, false]) {
    client.script = new ScriptCopy("s");
    if (wasShown) await open();
    shown.length = 0;
    client.ask("poll", {}, { quiet: true });
    await answer({ gone: true });
    assert.deepEqual(shown[0], ["closed"]);
    assert.deepEqual(shown.slice(1).map(([, text]) => text.includes("Play")), wasShown ? [true] : []);
  }
});

test("the message changes only for the user's own requests, for problems, and when the server answers again", async () => {
  const results = [];
  for (const [value, how] of [[{ message: "Saved." }], [{}], [{}, { quiet: true }], [{ problem: "No." }, { quiet: true }], [{ message: "Done." }, { quiet: true }]]) {
    const asked = client.ask("list", {}, how);
    await answer(value);
    results.push((await asked) !== null);
  }
  assert.deepEqual(shown, [["good", "Saved."], ["good", ""], ["bad", "No."], ["good", "Done."]]);
  assert.deepEqual(results, [true, true, true, false, true]);
  shown.length = 0;
  const lost = client.ask("list", {}, { quiet: true });
  await soon();
  await elapse(LIMIT);
  assert.equal(await lost, null);
  client.ask("list", {}, { quiet: true });
  await answer();
  assert.deepEqual(shown, [["bad", LOST], ["good", ""]]);
});

test("the scripts that are being spoken are the open one, and the others of the list", async () => {
  client.ask("list");
  await answer({ scripts: [{ id: "s", running: false }, { id: "b", running: true }, { id: "c", running: false }] });
  assert.deepEqual(client.running, ["b"]);
  await open({ running: true });
  assert.deepEqual(client.running, ["s", "b"]);
  client.scripts[0].running = true;
  assert.deepEqual(client.running, ["s", "b"]);
  const stopped = client.stopAll();
  await answer();
  await answer();
  await stopped;
  assert.deepEqual(sent.slice(-2).map((request) => [request.do, request.script]), [["stop", "s"], ["stop", "b"]]);
});

test("polls are a second apart while the script is spoken or checked, and take a tenth of the time at most", async () => {
  for (const head of [{ running: true }, { proof: { done: 1, cards: 2 } }]) {
    await open(head);
    const intervals = [undefined, 20, 400, 60_000].map((took) => Object.assign(client, { took }).interval);
    assert.deepEqual(intervals, [1_000, 1_000, 4_000, 15_000]);
  }
  page.say(LOST, "bad");
  client.took = 20;
  assert.equal(client.interval, 15_000, "the server did not answer");
});

test("polls are rare while nothing is spoken", async () => {
  assert.equal(client.interval, 15_000);
  client.scripts = [{ id: "b", running: true }];
  assert.equal(client.interval, 5_000);
  await open();
  assert.equal(client.interval, 15_000, "the list is not shown");
});

test("what is seen is polled, and a script that is being spoken always", async () => {
  const polls = async () => {
    const before = sent.length;
    client.poll();
    await soon();
    const what = sent.slice(before).map((request) => request.do);
    if (what.length) await answer();
    return what;
  };
  assert.deepEqual(await polls(), [], "the owner is not known yet");
  client.arrived = true;
  assert.deepEqual(await polls(), ["list"]);
  await open();
  assert.deepEqual(await polls(), ["poll"]);
  page.isSeen = false;
  assert.deepEqual(await polls(), []);
  await open({ running: true });
  assert.deepEqual(await polls(), ["poll"]);
  client.script = null;
  assert.deepEqual(await polls(), []);
  assert.deepEqual(shown, [], "the message stays");
});

test("one poll is planned at a time, each after the one before, with the time that it took", async () => {
  client.arrived = true;
  client.pollLater();
  client.pollLater();
  assert.deepEqual(delays(), [15_000]);
  await elapse(15_000);
  assert.deepEqual([sent.length, delays()], [1, [LIMIT]], "until it is answered");
  await answer();
  assert.ok(client.took >= 0);
  assert.deepEqual(delays(), [15_000]);
  page.isSeen = false;
  await elapse(15_000);
  assert.deepEqual([sent.length, delays()], [1, [15_000]]);
});
