// The stored take list, link refresh, and the estimate below the text.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "../helpers.js";
import { speakingTime, measured } from "../../../../web/static/speak/estimate.js";
import { isForeign } from "../../../../web/static/speak/language.js";
import { LinkRefresh, LINKS_LAST } from "../../../../web/static/speak/link_refresh.js";
import { MAX_TAKES, TakeList } from "../../../../web/static/speak/takes/take_list.js";
import { factsOf, paceOf } from "../../../../web/static/speak/takes/take_row.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("player", "takes", "history"));

function storage(text = null) {
  return { text, getItem: () => storage.text ?? text, setItem(_, value) { this.text = value; } };
}

const take = (id) => ({ id, text: id });

test("the newest take comes first, and only takes known to the server are shown", () => {
  const list = new TakeList(storage());
  ["a", "b", "c"].forEach((id) => list.add(id, id === "a" ? 120 : null));
  assert.deepEqual(list.ids, ["c", "b", "a"]);
  assert.deepEqual(list.rows, []);
  list.answer({ takes: [take("a"), take("c")], gone: [] });
  assert.deepEqual(list.rows, [{ id: "c", text: "c", ms: null, stalls: null }, { id: "a", text: "a", ms: 120, stalls: null }]);
  list.add("a", 80, { times: 1, seconds: 1 }, "g");
  assert.deepEqual(list.ids, ["a", "c", "b"]);
  list.add("a"); // by its address
  assert.deepEqual(list.own[0], { id: "a", ms: 80, stalls: { times: 1, seconds: 1 }, group: "g" });
});

test("a pending answer does not remove takes added meanwhile", () => {
  const list = new TakeList(storage());
  list.add("a");
  list.add("b"); // the next answer was requested before this
  list.answer({ takes: [take("a")], gone: [] });
  assert.deepEqual(list.ids, ["b", "a"]);
});

test("a take whose connection broke off is asked for until the server has stored it", () => {
  const list = new TakeList(storage());
  list.expect("a", 120);
  list.answer({ takes: [], gone: ["a"] });
  assert.deepEqual([list.ids, list.rows, list.waits], [["a"], [], true]);
  list.answer({ takes: [take("a")], gone: [] });
  assert.deepEqual([list.rows.map(({ id, ms }) => [id, ms]), list.waits], [[["a", 120]], false]);
  list.answer({ takes: [], gone: ["a"] });
  assert.deepEqual(list.ids, [], "deleted afterwards");
});

test("a take that the server never stores is given up", () => {
  const list = new TakeList(storage());
  list.expect("a");
  for (let tries = 0; list.waits; tries++) {
    assert.ok(tries < 20);
    list.answer({ takes: [], gone: ["a"] });
  }
  assert.deepEqual(list.ids, []);
});

test("a deleted take leaves the list and the comparison", () => {
  const list = new TakeList(storage());
  ["a", "b"].forEach((id) => list.add(id));
  list.answer({ takes: [take("a"), take("b")], gone: [] });
  list.choose("a");
  list.choose("b");
  list.answer({ takes: [take("b")], gone: ["a"] });
  assert.deepEqual([list.ids, list.chosen, list.rows.length], [["b"], ["b"], 1]);
});

test("a third compared take replaces the first, and choosing one again deselects it", () => {
  const list = new TakeList(storage());
  assert.deepEqual(list.choose("a"), ["a"]);
  assert.deepEqual(list.choose("b"), ["a", "b"]);
  assert.deepEqual(list.choose("c"), ["b", "c"]);
  assert.deepEqual(list.choose("b"), ["c"]);
});

test("the first-sound delay is recorded once", () => {
  const kept = storage();
  const list = new TakeList(kept);
  list.add("a");
  list.heard("a", 300);
  assert.equal(JSON.parse(kept.text)[0].ms, 300);
  list.heard("a", 900);
  list.heard("never heard of", 1);
  list.stalled("a", { times: 1, seconds: 0.5 });
  assert.equal(JSON.parse(kept.text)[0].stalls.times, 1);
  list.stalled("never heard of", { times: 9, seconds: 9 });
  assert.deepEqual(list.own, [{ id: "a", ms: 300, stalls: { times: 1, seconds: 0.5 } }]);
});

test("a reload restores the list, and invalid storage is ignored", () => {
  const kept = storage();
  const list = new TakeList(kept);
  for (let i = 0; i < MAX_TAKES + 5; i++) list.add(`take ${i}`);
  const again = new TakeList({ getItem: () => kept.text, setItem() {} });
  assert.equal(again.ids.length, MAX_TAKES);
  assert.equal(again.ids[0], `take ${MAX_TAKES + 4}`);
  for (const rubbish of ["{", "7", '[{"id": 7}]', "null"]) assert.deepEqual(new TakeList(storage(rubbish)).ids, []);
  const refusing = new TakeList({ getItem() { throw new Error("no"); }, setItem() { throw new Error("no"); } });
  refusing.add("a");
  assert.deepEqual(refusing.ids, ["a"]);
});

test("a take shows its facts, and its pace on request", () => {
  const spoken = { voice: "Ben", seconds: 2.84, ms: 311, first: 0.2, reason: "end", listed: true, factor: 0.456 };
  assert.deepEqual(factsOf(spoken, "de"), ["Ben", "2,8\u00a0s"]);
  const stopped = { ...spoken, ms: null, reason: "cancelled", listed: false };
  assert.equal(factsOf(stopped, "en")[2], "stopped by you", "as in the history");
  assert.equal(factsOf({ ...stopped, reason: "length" }, "en")[2], "stopped early");
  assert.equal(factsOf(stopped, "en").length, 4);
  assert.equal(factsOf({ ...stopped, reason: "short" }, "en")[2], "too short for its words");
  assert.equal(paceOf(spoken, "de"), "sound after 311 ms · Real-time factor 0,46");
  const stalls = { times: 2, seconds: 1.25 };
  assert.match(paceOf({ ...stopped, stalls }, "en"), /^sound after 200 ms · the sound paused for 1.3\u00a0s \(2 ×\)/);
  assert.equal(paceOf({ factor: null, ms: null, first: null, stalls: { times: 0, seconds: 0 } }, "de"), "");
});

test("expired links are requested once and awaited", async () => {
  let now = 0;
  let asked = 0;
  const links = new LinkRefresh(() => (asked += 1), () => now, () => {});
  const got = [];
  links.ready().then(() => got.push(1));
  links.ready().then(() => got.push(2));
  await Promise.resolve();
  assert.deepEqual([asked, got], [1, []]);
  links.arrived();
  await links.ready();
  assert.deepEqual([asked, got], [1, [1, 2]]);
  now = LINKS_LAST;
  links.ready();
  assert.equal(asked, 2);
});

test("links are asked for again when no answer came", async () => {
  const timers = [];
  let asked = 0;
  const links = new LinkRefresh(() => (asked += 1), () => 0, (_ms, done) => timers.push(done));
  const ready = links.ready();
  timers.shift()();
  assert.equal(asked, 2);
  links.arrived();
  await ready;
  timers.shift()();
  assert.deepEqual([asked, timers.length], [2, 0]);
});

test("the estimate is close to the server's", () => {
  // Values of engine.text.speaking_time.
  const near = [
    ["The rain has stopped, and the first birds are singing again.", 4.05],
    ["On 3 March 2027 it cost 19.50.", 5.98],
    ["今天上午，市里的新图书馆开馆了。", 4.25],
    ["NASA and the BBC.", 3.03],
  ];
  for (const [text, seconds] of near) assert.ok(Math.abs(speakingTime(text) / seconds - 1) < 0.15, `${text} ${speakingTime(text)}`);
  assert.equal(speakingTime(""), 0);
});

test("the shown estimate is rounded", () => {
  assert.deepEqual(measured("  "), { count: 0, seconds: 0 });
  assert.equal(measured("a👍").count, 2);
  assert.equal(measured("Hello there.").seconds, 2);
  assert.equal(measured("Hello there. ".repeat(20)).seconds % 5, 0);
  assert.equal(measured("Hello there. ".repeat(100)).seconds, 120);
  assert.equal(measured("Hello there. ".repeat(100), 2).seconds, 60);
});

test("texts in other languages are told from English ones", () => {
  const foreign = [
    "Guten Morgen, wie geht es Ihnen heute?",
    "La pluie a cessé et les premiers oiseaux chantent de nouveau.",
    "Ha dejado de llover y los primeros pájaros vuelven a cantar.",
    "La pioggia è finita, e gli uccelli sono tornati a cantare.",
    "A chuva parou e os primeiros pássaros voltaram a cantar.",
    "De regen is opgehouden en het is nog niet laat.",
    "der und",
  ];
  assert.deepEqual(foreign.map(isForeign), foreign.map(() => true));
  const own = [
    "",
    "Hello.",
    "The die is cast, on a day in May, as Juan de la Cruz said in a café.",
    "She read “la vie est belle” to us, and we laughed at it.",
    "Two naïve fiancés.",
    "der Tisch",
    "Sixty miles per hour, ten words per minute.",
    "Anna wore a red hat. Ben met Ann's son.",
    "Two plus two equals four. Four plus four equals eight.",
    "Los Angeles, Las Vegas.",
    "José met Zoë.",
    "3 x 4 = 12",
  ];
  assert.deepEqual(own.map(isForeign), own.map(() => false));
});
