// The page's copy of a script: the request queue, patches, the cast, and continuous playback.

import assert from "node:assert/strict";
import { test } from "node:test";

import { seeded } from "../helpers.js";
import { cardsOfChapters, castOf, chaptersOf, characters, nextToHear, partingPlace, ScriptCopy, trimmedPlace } from "../../../../web/static/script/cards.js";
import { ContinuousPlayback } from "../../../../web/static/script/playback/continuous_playback.js";
import { RequestQueue } from "../../../../web/static/script/request_queue.js";
import { Batches } from "../../../../web/static/connection/batches.js";

const card = (id, more = {}) => ({ id, text: `Text ${id}.`, speaker: null, voice: "v", pause: 0.5, state: "spoken", take: `take-${id}`, sound: `take-${id}`, ...more });
const patch = (cards, { since = "", version = "1", order = cards.map(({ id }) => id), running = false } = {}) => ({
  script: "s", since, version, order, cards, head: { running },
});
const soon = () => new Promise((resolve) => setTimeout(resolve, 0));

test("a request is built and sent when the previous one is answered", async () => {
  const put = [];
  const queue = new RequestQueue((question) => put.push(question));
  let version = 1;
  const first = queue.ask(() => ({ do: "a", version }));
  const second = queue.ask(() => ({ do: "b", version }));
  await soon();
  assert.deepEqual(put, [{ do: "a", version: 1, number: 1 }]);
  queue.receive({ number: 99 });
  queue.receive(null);
  assert.equal(put.length, 1);
  version = 2;
  queue.receive({ number: 1, answer: "x" });
  assert.deepEqual(await first, { number: 1, answer: "x" });
  await soon();
  assert.deepEqual(put[1], { do: "b", version: 2, number: 2 });
  queue.receive({ number: 1 });
  queue.receive({ number: 2 });
  assert.deepEqual(await second, { number: 2 });
});

test("an unanswered request times out, and the next one is sent", async () => {
  const put = [];
  const queue = new RequestQueue((question) => put.push(question), { timeout: 5 });
  assert.equal(await queue.ask(() => ({ do: "a" })), null);
  const next = queue.ask(() => ({ do: "b" }));
  await soon();
  queue.receive({ number: 1, late: true });
  queue.receive({ number: 2 });
  assert.deepEqual(await next, { number: 2 });
});

test("on leaving, requests do not wait for answers, and late answers are accepted", async () => {
  const put = [];
  let last = false;
  const queue = new RequestQueue((question) => put.push(question), { last: () => last });
  queue.ask(() => ({ do: "poll" }));
  await soon();
  last = true;
  const [first, second] = [queue.ask(() => ({ do: "remove" })), queue.ask(() => ({ do: "remove" }))];
  assert.deepEqual(put.map(({ number }) => number), [1, 2, 3]);
  queue.receive({ number: 3 });
  queue.receive({ number: 2 });
  assert.deepEqual([await first, await second], [{ number: 2 }, { number: 3 }]);
  queue.receive({ number: 1 });
});

test("a request waits for the server, and is sent again if it got no answer", async () => {
  const put = [];
  let back;
  const present = () => new Promise((resolve) => (back = resolve));
  const queue = new RequestQueue((question) => put.push(question), { timeout: 5, present });
  const answer = queue.ask(() => ({ do: "edit" }));
  await soon();
  assert.deepEqual(put, [], "the server is gone");
  back();
  await soon();
  queue.hold(); // the server is gone again
  await new Promise((resolve) => setTimeout(resolve, 10));
  queue.again();
  assert.deepEqual(put, [{ do: "edit", number: 1 }, { do: "edit", number: 1 }]);
  queue.receive({ number: 1 });
  assert.deepEqual(await answer, { number: 1 });
  queue.hold();
  queue.again();
  assert.equal(put.length, 2, "no request is pending");
});

test("the time of an answer does not include that without a server", async () => {
  const began = performance.now();
  const queue = new RequestQueue(() => {});
  const answer = queue.ask(() => ({ do: "poll" }));
  await soon();
  queue.hold(); // the server is gone
  await new Promise((resolve) => setTimeout(resolve, 60));
  queue.again();
  queue.receive({ number: 1 });
  await answer;
  assert.ok(queue.took < performance.now() - began - 50);
});

test("patches apply in order, and one out of order is rejected", () => {
  const script = new ScriptCopy("s");
  assert.deepEqual(script.apply(patch([card("a"), card("b")])), { changed: [card("a"), card("b")], moved: true });
  const changed = card("b", { text: "Other." });
  const news = script.apply({ ...patch([changed], { since: "1", version: "2" }), order: null });
  assert.deepEqual([news.moved, script.list.map(({ text }) => text)], [false, ["Text a.", "Other."]]);
  assert.equal(script.apply(patch([], { since: "1", version: "3" })), null);
  assert.equal(script.apply({ ...patch([]), script: "another" }), null);
  script.apply({ ...patch([card("c")], { since: "2", version: "3" }), order: ["c", "b"] });
  assert.deepEqual(script.list.map(({ id }) => id), ["c", "b"]);
  assert.equal(script.cards.size, 2);
  script.apply(patch([card("z")], { version: "9" }));
  assert.deepEqual([script.list.length, script.version], [1, "9"]);
});

test("patches reproduce the script after random edits", () => {
  const random = seeded(7);
  const pick = (count) => Math.floor(random() * count);
  let truth = [card("0"), card("1"), card("2")];
  const page = new ScriptCopy("s");
  page.apply(patch(truth));
  for (let step = 1; step < 200; step++) {
    const before = truth;
    truth = [...truth];
    const what = pick(3);
    if (what === 0) truth.splice(pick(truth.length + 1), 0, card(`n${step}`));
    else if (what === 1 && truth.length > 1) truth.splice(pick(truth.length), 1);
    else if (truth.length) truth[pick(truth.length)] = card(truth[pick(truth.length)].id, { text: `${step}` });
    truth = [...new Map(truth.map((each) => [each.id, each])).values()];
    const cards = truth.filter((each) => !before.includes(each));
    const ids = (list) => list.map(({ id }) => id).join();
    const order = ids(before) === ids(truth) ? null : truth.map(({ id }) => id);
    page.apply({ ...patch(cards, { since: String(step), version: String(step + 1) }), order });
    assert.deepEqual(page.list, truth);
  }
});

test("the cast lists the speakers in order of appearance", () => {
  const cards = [card("a", { speaker: "Ann" }), card("b"), card("c", { speaker: "Ann", voice: "w" }), card("d", { voice: null })];
  assert.deepEqual(castOf(cards), [
    { speaker: "Ann", cards: 2, voices: ["v", "w"] },
    { speaker: null, cards: 2, voices: ["v", null] },
  ]);
  assert.deepEqual(castOf([]), []);
});

test("chapters begin at their first cards, and have estimated lengths", () => {
  const chapter = (id, title) => card(id, { chapter: title, text: "Hello there. ".repeat(20), speed: 2, pause: 10 });
  const cards = [chapter("a", null), chapter("b", null), chapter("c", "One"), chapter("d", "Two"), chapter("e", null)];
  const [{ seconds }] = chaptersOf([cards[0]], "A Book");
  assert.ok(seconds > 15 && seconds < 30);
  const found = chaptersOf(cards, "A Book").map(({ id, title, seconds: length }) => [id, title, length > 1.5 * seconds]);
  assert.deepEqual(found, [["a", "A Book", true], ["c", "One", false], ["d", "Two", true]]);
  assert.deepEqual(chaptersOf([], "A Book"), []);
  assert.deepEqual(cardsOfChapters(cards, ["a", "d"]).map(({ id }) => id), ["a", "b", "d", "e"]);
  assert.deepEqual(cardsOfChapters(cards, ["b"]), []);
});

test("the next card is awaited only while the script is being spoken", () => {
  const cards = [card("a"), card("b", { state: "queued", take: null, sound: null }), card("c", { state: "failed", take: null, sound: null }), card("d")];
  assert.deepEqual(nextToHear(cards, 0, true), { card: cards[0] });
  assert.deepEqual(nextToHear(cards, 1, true), { wait: cards[1] });
  assert.deepEqual(nextToHear(cards, 1, false), { card: cards[3] });
  assert.equal(nextToHear(cards, 4, true), null);
  const redone = [card("a", { state: "speaking" })];
  assert.deepEqual([nextToHear(redone, 0, true), nextToHear(redone, 0, false)], [{ wait: redone[0] }, { card: redone[0] }]);
});

test("a card is split at the cursor, or else between its sentences", () => {
  assert.equal(partingPlace("One. Two.", 5), 5);
  assert.equal(partingPlace("One. Two.", 0), 5);
  assert.equal(partingPlace("One! Two three. Four five six.", 30), 16);
  assert.equal(partingPlace("One two three. Four five six. Seven.", 0), 15, "near the middle");
  assert.equal(partingPlace("今日は。明日も。", 0), 4);
  assert.equal(partingPlace("no end here", 0), 0);
  assert.equal(characters("👩‍🚀 a"), 5);
});

test("a place in a text is found again when the text is trimmed", () => {
  const text = "  One. Two. \n";
  for (const [at, place] of [[0, 0], [1, 0], [2, 0], [7, 5], [11, 9], [12, 9], [13, 9]]) {
    assert.equal(trimmedPlace(text, at), place);
  }
});

function listening(cards, running = false) {
  const script = new ScriptCopy("s");
  script.apply(patch(cards, { running }));
  const heard = [];
  const deleted = new Set();
  const fetched = [];
  const timers = [];
  const made = new ContinuousPlayback({
    script: () => script,
    isDeleted: ({ id }) => deleted.has(id),
    play: ({ id }) => heard.push(id),
    ready: ({ id }) => fetched.push(id),
    later: (act, ms) => timers.push({ act, ms }) && timers.at(-1),
    forget: (timer) => timers.includes(timer) && timers.splice(timers.indexOf(timer), 1),
  });
  const pass = () => timers.shift().act();
  return { script, heard, deleted, fetched, timers, listening: made, pass };
}

test("cards play in order, each after its pause", () => {
  const { listening: along, heard, fetched, timers, pass } = listening([card("a"), card("b", { pause: 2 }), card("c", { take: null, sound: null, state: "new" }), card("d")]);
  along.begin("a");
  assert.deepEqual(heard, ["a"]);
  along.stopped("take-a", "ended");
  assert.deepEqual([heard, fetched, timers[0].ms], [["a"], ["b"], 500]);
  along.look();
  assert.deepEqual(heard, ["a"], "updates do not shorten the pause");
  pass();
  along.stopped("take-b", "paused");
  assert.equal(timers.length, 0);
  along.stopped("take-b", "ended");
  assert.equal(timers[0].ms, 2000);
  pass();
  assert.deepEqual(heard, ["a", "b", "d"]);
  along.stopped("take-d", "ended");
  assert.deepEqual([timers.length, along.awaited], [0, null]);
});

test("a card with a pending deletion is skipped", () => {
  const { listening: along, heard, deleted, pass } = listening([card("a"), card("b"), card("c"), card("d")]);
  deleted.add("a").add("c");
  along.begin("a");
  along.stopped("take-b", "ended");
  pass();
  assert.deepEqual(heard, ["b", "d"]);
});

test("an unfinished card is awaited, and a failed card is skipped", () => {
  const coming = { state: "queued", take: null, sound: null };
  const { listening: along, script, heard, pass } = listening([card("a", coming), card("b", coming), card("c", coming)], true);
  const news = (cards, running = true) => {
    script.apply({ ...patch(cards, { since: script.version, version: `${Number(script.version) + 1}`, running }), order: null });
    along.look();
  };
  along.begin("a");
  news([card("b")]);
  assert.deepEqual(heard, [], "cards play in order although the second is ready first");
  news([card("a")]);
  assert.deepEqual(heard, ["a"]);
  along.stopped("take-a", "ended");
  news([card("b", { ...coming, state: "failed" })]);
  pass();
  assert.deepEqual(heard, ["a"]);
  news([card("c")]);
  assert.deepEqual(heard, ["a", "c"]);
});

test("playback does not continue after another sound, or when it is turned off", () => {
  const { listening: along, heard, timers } = listening([card("a"), card("b")]);
  along.begin("a");
  along.stopped("take-a", "replaced");
  along.stopped("take-a", "ended");
  assert.equal(timers.length, 0);
  along.playing(card("a"));
  along.on = false;
  along.stopped("take-a", "ended");
  assert.deepEqual([timers.length, heard], [0, ["a"]]);
  along.on = true;
  along.playing(card("a"));
  along.stopped("take-x", "ended");
  assert.equal(timers.length, 0, "a take of another tab");
  along.stopped("take-a", "ended");
  along.rest();
  assert.equal(timers.length, 0);
});

test("the next card does not interrupt a sound that was begun in the pause before it, or while it was awaited", () => {
  const { listening: along, heard, timers } = listening([card("a"), card("b")]);
  along.begin("a");
  along.sounds("take-a");
  along.stopped("take-a", "ended");
  along.sounds("take of the list");
  assert.equal(timers.length, 0);
  along.playing(card("a")); // its sound is being fetched
  const wanted = along.heard;
  along.sounds("take of the list");
  assert.notEqual(along.heard, wanted);
  along.look();
  assert.deepEqual(heard, ["a"]);
});

test("a card that is not spoken when the one before has ended is awaited", () => {
  const coming = { state: "speaking", take: null, sound: null };
  const { listening: along, script, heard, fetched, pass } = listening([card("a"), card("b", coming)], true);
  along.begin("a");
  along.stopped("take-a", "ended");
  assert.deepEqual([along.awaited, fetched], ["b", []]);
  pass();
  assert.deepEqual([along.awaited, heard], ["b", ["a"]]);
  script.apply({ ...patch([card("b")], { since: "1", version: "2", running: true }), order: null });
  along.look();
  assert.deepEqual(heard, ["a", "b"]);
});

test("a card that is pressed in the pause before the next one is played instead of it", () => {
  const { listening: along, timers } = listening([card("a"), card("b"), card("c")]);
  along.begin("a");
  along.stopped("take-a", "ended");
  along.playing(card("c"));
  assert.deepEqual([timers.length, along.awaited, along.heard.id], [0, null, "c"]);
});

test("nothing follows a card that was removed while it was heard", () => {
  const { listening: along, script, timers } = listening([card("a"), card("b")]);
  along.begin("a");
  script.apply(patch([], { since: "1", version: "2", order: ["b"] }));
  along.stopped("take-a", "ended");
  assert.deepEqual([timers.length, along.heard, along.awaited], [0, null, null]);
});

test("playback does not begin with an answer that comes after a stop, a recording or another sound", () => {
  assert.equal(listening([]).listening.plan()(), true);
  const ways = [(along) => along.rest(), (along) => along.sounds("take of the list"), (along) => along.playing(card("b")), (along) => (along.on = false)];
  for (const meanwhile of ways) {
    const { listening: along } = listening([card("a"), card("b")]);
    const mayBegin = along.plan();
    meanwhile(along);
    assert.equal(mayBegin(), false, `${meanwhile}`);
  }
});

test("cards that were not spoken are no longer awaited when speaking ends", () => {
  const { listening: along, script, heard } = listening([card("a", { state: "queued", take: null, sound: null })], true);
  along.begin("a");
  script.apply({ ...patch([card("a", { state: "new", take: null, sound: null })], { since: "1", version: "2" }), order: null });
  along.look();
  assert.deepEqual([heard, along.awaited], [[], null]);
});

test("peaks are asked for together, and again when no answer came", async () => {
  const [asked, timers] = [[], []];
  let answer = null;
  const request = async (takes) => {
    asked.push(takes);
    return answer;
  };
  const peaks = new Batches(request, () => ["a", "b"].forEach((take) => peaks.of(take)), (_ms, done) => timers.push(done));
  const next = () => timers.shift()();
  assert.deepEqual([peaks.of(null), peaks.of("a"), peaks.of("b"), timers.length], [undefined, null, null, 1]);
  await next();
  assert.equal(timers.length, 1);
  next(); // what is shown asks for its peaks again
  answer = { a: [1, 2] };
  await next();
  assert.deepEqual(asked, [["a", "b"], ["a", "b"]]);
  assert.deepEqual([peaks.of("a"), peaks.of("b"), timers.length], [[1, 2], null, 0]);
});
