// Late responses, requests while the server is gone, and detection of a lost server.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { LatestAnswers } from "../../../../web/static/connection/answers/latest_answers.js";
import { ServerWatch } from "../../../../web/static/connection/server_watch.js";
import { Transport } from "../../../../web/static/connection/transport/transport.js";

const SHOWS = "(...inputs) => /* only the latest answer counts */ inputs";
const CARD = 10;
const HINTS = 11;
const PICKER = 12;
const events = [
  { id: 1, outputs: [CARD, HINTS], js: SHOWS }, // the voice is picked
  { id: 2, outputs: [CARD], js: SHOWS }, // its link is old
  { id: 3, outputs: [PICKER], js: SHOWS }, // the voices have changed
  { id: 4, outputs: [CARD, PICKER], js: null }, // an action
  { id: 5, outputs: [PICKER], js: "(...inputs) => /* only the latest press counts */ inputs" }, // a button of a list
  { id: 6, targets: [[9, "then"]], outputs: [], js: null }, // follows another event
  { id: 7, outputs: [], js: "(...inputs) => /* repeated if it is lost */ inputs" },
];
const unchanged = { __type__: "update" };

test("an answer overtaken by a later one is dropped", () => {
  const answers = new LatestAnswers(events);
  const [none, anna] = [answers.ask(1), answers.ask(1)];
  assert.deepEqual(answers.settle(anna, ["Anna", "hints"]), ["Anna", "hints"]);
  assert.deepEqual(answers.settle(none, [null, "no hints"]), [unchanged, unchanged]);
});

test("of several presses only the last one counts, unless it fails", () => {
  const answers = new LatestAnswers(events);
  const [first, second] = [answers.ask(5), answers.ask(5)];
  assert.deepEqual(answers.settle(second, ["Ben"]), ["Ben"]);
  assert.deepEqual(answers.settle(first, ["Anna"]), [unchanged]);
  const [third, failing] = [answers.ask(5), answers.ask(5)];
  answers.failed(failing);
  assert.deepEqual(answers.settle(third, ["Clara"]), ["Clara"]);
});

test("outputs shared with a pending later request are dropped", () => {
  const answers = new LatestAnswers(events);
  const [picked, fresh] = [answers.ask(1), answers.ask(2)];
  assert.deepEqual(answers.settle(picked, ["old", "hints"]), [unchanged, "hints"]);
  assert.deepEqual(answers.settle(fresh, ["new"]), ["new"]);
  assert.deepEqual(answers.settle(answers.ask(1), ["newer", "more"]), ["newer", "more"]);
});

test("a failed request does not make others late", () => {
  const answers = new LatestAnswers(events);
  const [first, second] = [answers.ask(1), answers.ask(1)];
  answers.failed(second);
  assert.deepEqual(answers.settle(first, ["Anna", "hints"]), ["Anna", "hints"]);
});

test("an action's answer always counts and makes earlier ones late for the outputs it sets", () => {
  const answers = new LatestAnswers(events);
  const [shown, voices, action, later] = [answers.ask(1), answers.ask(3), answers.ask(4), answers.ask(1)];
  assert.deepEqual(answers.settle(action, ["done", unchanged]), ["done", unchanged]);
  assert.deepEqual(answers.settle(later, ["later", "hints"]), ["later", "hints"]);
  assert.deepEqual(answers.settle(shown, ["old", "old"]), [unchanged, unchanged]);
  assert.deepEqual(answers.settle(voices, ["list"]), ["list"]);
  const [early, setting] = [answers.ask(3), answers.ask(4)];
  const choices = { __type__: "update", choices: ["Anna"] };
  assert.deepEqual(answers.settle(setting, [unchanged, choices]), [unchanged, choices]);
  assert.deepEqual(answers.settle(early, ["list"]), [unchanged]);
});

test("a value chosen by the user meanwhile is kept; the rest of the answer counts", () => {
  const answers = new LatestAnswers(events);
  const [voices, action] = [answers.ask(3), answers.ask(4)];
  answers.chose(PICKER);
  const update = { __type__: "update", choices: ["Anna"], value: "Anna" };
  assert.deepEqual(answers.settle(voices, [update]), [{ __type__: "update", choices: ["Anna"] }]);
  assert.deepEqual(answers.settle(action, ["done", "Anna"]), ["done", unchanged]);
  assert.deepEqual(answers.settle(answers.ask(3), [update]), [update]);
  const tabs = answers.ask(3);
  answers.chose(PICKER);
  assert.deepEqual(answers.settle(tabs, [{ __type__: "update", selected: "speak" }]), [unchanged]);
});

test("what is entered into a field meanwhile is kept, however it is entered", () => {
  const answers = new LatestAnswers([{ id: 1, outputs: [20, 21, 22], js: null }]);
  const page = new EventTarget();
  const component = (id, type) => ({ id, type, props: { elem_id: `rp-${id}` } });
  answers.noteEntries([component(20, "textbox"), component(21, "slider"), component(22, "html"), component(23, "textbox")], page);
  const enter = (id) => {
    const target = { closest: () => id && { id: `rp-${id}` } };
    page.dispatchEvent(Object.defineProperty(new Event("input"), "target", { value: target }));
  };
  const first = answers.ask(1);
  for (const id of [21, 22, 23, null]) enter(id);
  assert.deepEqual(answers.settle(first, ["", 1, "list"]), ["", unchanged, "list"]);
  const second = answers.ask(1);
  enter(20);
  assert.deepEqual(answers.settle(second, ["", 1, "list"]), [unchanged, 1, "list"]);
});

test("a choice that is sent later than the next request is kept until it is sent", () => {
  const KEEP = 13;
  const input = { targets: [[KEEP, "input"]] };
  const more = [
    { id: 6, ...input, outputs: [], js: "() => { reprise.answers.chose(13); }", backend_fn: false },
    { id: 7, ...input, inputs: [KEEP], outputs: [HINTS], js: null, backend_fn: true },
    { id: 9, targets: [[7, "failure"]], inputs: [KEEP], outputs: [HINTS], js: null, backend_fn: true },
    { id: 8, outputs: [KEEP], js: SHOWS },
  ];
  const answers = new LatestAnswers([...events, ...more]);
  answers.chose(KEEP);
  const before = answers.ask(8); // the event of an earlier choice is not over
  answers.ask(6);
  assert.deepEqual(answers.settle(before, [true]), [unchanged]);
  answers.ask(7);
  assert.deepEqual(answers.settle(before, [true]), [unchanged]);
  assert.deepEqual(answers.settle(answers.ask(8), [false]), [false]);
  answers.chose(KEEP);
  answers.ask(9); // the event of an earlier choice has failed
  assert.deepEqual(answers.settle(answers.ask(8), [true]), [true]);
});

// ---- requests

const CALL = "http://here/gradio_api/run/predict";
const JOIN = "http://here/gradio_api/queue/join?";
const STREAM = "http://here/gradio_api/queue/data?session_hash=a";
const body = (id) => ({ method: "POST", body: JSON.stringify({ fn_index: id, data: [] }) });
const settled = () => new Promise((done) => setImmediate(done)); // what is waiting has gone on
const refusing = () => Promise.reject(new TypeError("Failed to fetch"));

function transport(fetch, present = async () => {}) {
  const counts = { lost: 0, useless: 0, refused: 0, missed: 0 };
  const unsent = [];
  const count = (what) => () => (counts[what] += 1);
  const answers = new LatestAnswers(events);
  const user = { isActive: true };
  const more = { refused: count("refused"), missed: count("missed"), unsent: (data) => unsent.push(data), present, isActive: () => user.isActive, after() {} }; // timers would keep Node running
  const made = new Transport({ fetch, answers, version: "v1", lost: count("lost"), useless: count("useless"), ...more });
  return { counts, made, user, unsent };
}

test("only late outputs of an answer are replaced", async () => {
  const waiting = [];
  const { made } = transport(() => new Promise((answer) => waiting.push(answer)));
  const answers = [made.send(CALL, body(1)), made.send(CALL, body(1))];
  const reply = (...data) => new Response(JSON.stringify({ data, duration: 1 }));
  waiting[1](reply("Anna", "hints"));
  assert.deepEqual(await (await answers[1]).json(), { data: ["Anna", "hints"], duration: 1 });
  waiting[0](reply(null, null));
  assert.deepEqual(await (await answers[0]).json(), { data: [unchanged, unchanged], duration: 1 });
});

test("without a server, events fail and Gradio keeps working", async () => {
  const { counts, made } = transport(refusing);
  const join = await made.send(JOIN, body(1));
  const call = await made.send(CALL, body(1));
  assert.deepEqual([call.ok, join.ok, counts.lost], [false, false, 2]);
  assert.deepEqual(await call.json(), { error: null });
  await assert.rejects(made.send("http://here/file.wav"), TypeError);
  assert.equal(counts.lost, 3);
});

test("a gateway error counts as a lost server, a refusal does not", async () => {
  let status = 502;
  const { counts, made, user } = transport(async () => new Response("{}", { status }));
  await made.send(CALL, body(1));
  await made.send(JOIN, body(1));
  assert.equal(counts.lost, 2);
  status = 429;
  assert.equal((await made.send(CALL, body(4))).status, 429);
  assert.equal((await made.send(CALL, body(1))).status, 429);
  assert.deepEqual(counts, { lost: 2, useless: 0, refused: 1, missed: 0 }, "of an action, not of what is only shown");
  user.isActive = false;
  await made.send(CALL, body(1));
  assert.equal(counts.refused, 1, "of what the user did, not of what the page asks for by itself");
});

test("what the user does while the server is gone counts as missed", async () => {
  let fetch = refusing;
  const { counts, made, user } = transport((...request) => fetch(...request));
  await made.send(CALL, body(1)); // only shows something
  await made.send(CALL, body(6)); // follows another event
  assert.equal(counts.missed, 0);
  await made.send(CALL, body(4));
  fetch = async () => new Response("{}", { status: 502 });
  await made.send(CALL, body(4));
  fetch = async () => new Response('{"data":'); // breaks off
  await made.send(CALL, body(4));
  assert.deepEqual([counts.missed, counts.refused], [3, 0]);
  user.isActive = false;
  await made.send(CALL, body(4));
  assert.equal(counts.missed, 3);
});

test("an event that does no harm twice is repeated, as soon as the server is back, until it is answered", async () => {
  const sent = [];
  const back = [];
  const answers = [refusing, async () => new Response("{}", { status: 504 }), async () => new Response('{"data":[]}')];
  const fetch = (url, { body: asked }) => {
    sent.push(asked);
    return answers.shift()();
  };
  const { counts, made } = transport(fetch, () => new Promise((resolve) => back.push(resolve)));
  const stopped = made.send(CALL, body(7));
  await settled();
  assert.equal(sent.length, 1, "the server is not back");
  back[0]();
  await settled();
  back[1]();
  assert.equal((await stopped).status, 200);
  assert.deepEqual(sent, [body(7).body, body(7).body, body(7).body]);
  assert.deepEqual([counts.lost, counts.missed], [2, 0]);
  answers.push(...Array.from({ length: 10 }, () => refusing));
  const { made: hopeless } = transport(fetch);
  assert.equal((await hopeless.send(CALL, body(7))).status, 503);
  assert.equal(sent.length, 3 + 5);
});

test("calls name the page's version; a refusal of the page makes it useless", async () => {
  let status = 200;
  const sent = [];
  const { counts, made } = transport(async (url, { headers }) => {
    sent.push(new Headers(headers));
    return new Response('{"data":[]}', { status });
  });
  const calls = [CALL, JOIN, "http://here/gradio_api/component_server/"];
  const json = { ...body(4), headers: { "Content-Type": "application/json" } };
  for (const url of [...calls, "http://here/gradio_api/upload"]) await made.send(url, json);
  assert.deepEqual(sent.map((headers) => headers.get("X-Reprise-Page")), ["v1", "v1", "v1", null]);
  assert.ok(sent.every((headers) => headers.get("Content-Type") === "application/json"));
  assert.equal(counts.useless, 0);
  for (status of [409, 401]) for (const url of calls) assert.equal((await made.send(url, json)).status, status);
  assert.deepEqual(counts, { lost: 0, useless: 6, refused: 0, missed: 0 });
});

test("the reason of a refused event of the queue is told by its status, and events that have not joined by their data", async () => {
  let answer;
  const { made, unsent } = transport(() => answer());
  const refused = async (status) => {
    answer = async () => new Response("{}", { status });
    await made.send(JOIN, { body: JSON.stringify({ event_data: status }) });
    return made.failure;
  };
  for (const status of [401, 409, 422]) assert.equal(await refused(status), "player.reload");
  for (const status of [429, 503]) assert.equal(await refused(status), "player.full");
  assert.equal(await refused(413), "player.too_long");
  assert.equal(await refused(200), "player.failed", "it failed after it had joined");
  await refused(503);
  answer = refusing;
  await made.send(JOIN, { body: JSON.stringify({ event_data: "lost" }) });
  assert.equal(made.failure, "player.failed");
  assert.deepEqual(unsent, [401, 409, 422, 429, 503, 413, 503, "lost"]);
});

const messages = (text) => text.split("\n\n").filter(Boolean).map((each) => JSON.parse(each.replace(/^data: /, "")).msg);

test("a broken or refused stream ends the events that wait for it", async () => {
  const broken = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('data: {"msg":"estimation"}\n\n'));
    },
    pull(controller) {
      controller.error(new TypeError("network error"));
    },
  });
  const { counts, made } = transport(async () => new Response(broken));
  const text = await (await made.send(new Request(STREAM))).text();
  assert.deepEqual(messages(text), ["estimation", "unexpected_error", "close_stream"]);
  const refused = transport(refusing);
  const ended = await refused.made.send(STREAM);
  assert.equal(ended.headers.get("Content-Type"), "text/event-stream");
  assert.deepEqual(messages(await ended.text()), ["unexpected_error", "close_stream"]);
  assert.deepEqual([counts.lost, refused.counts.lost], [1, 1]);
  const { made: limited } = transport(async () => new Response("Too many.", { status: 429 }));
  const answer = await limited.send(STREAM);
  assert.deepEqual([answer.status, await answer.text()], [429, "Too many."]);
});

test("events of a stream are passed on whole, in whatever pieces they arrive, and one that breaks off is not", async () => {
  const sent = 'data: {"msg":"estimation","text":"é 😀"}\n\ndata: {"msg":"process_generating"}\n\ndata: {"msg":"proc';
  const bytes = new TextEncoder().encode(sent);
  for (const size of [1, 2, 25, 27, 28, 29, bytes.length]) {
    let at = 0;
    const broken = new ReadableStream({
      pull(controller) {
        if (at >= bytes.length) controller.error(new TypeError("network error"));
        else controller.enqueue(bytes.subarray(at, (at += size)));
      },
    });
    const { made } = transport(async () => new Response(broken));
    const text = await (await made.send(STREAM)).text();
    assert.deepEqual(messages(text), ["estimation", "process_generating", "unexpected_error", "close_stream"], `${size} bytes at once`);
    assert.ok(text.startsWith('data: {"msg":"estimation","text":"é 😀"}'));
  }
});

test("a stream that the server closes while an event has joined goes on with the messages of that event", { timeout: 10_000 }, async () => {
  const line = (msg, id) => `data: {"msg":"${msg}","event_id":${id ? `"${id}"` : null}}\n\n`;
  const streams = [];
  const fetch = async (url, { body: call } = {}) => {
    if (url === JOIN) return new Response(JSON.stringify({ event_id: `event${JSON.parse(call).fn_index}` }));
    streams.push(new TransformStream());
    return new Response(streams.at(-1).readable);
  };
  const { made } = transport(fetch);
  const send = async (number, ...lines) => {
    const writer = streams[number].writable.getWriter();
    for (const each of lines) await writer.write(new TextEncoder().encode(each));
    writer.close();
  };
  await made.send(JOIN, body(1));
  const text = (await made.send(STREAM)).text();
  await made.send(JOIN, body(2)); // the server has closed the stream just before
  await send(0, line("process_completed", "event1"), line("close_stream"));
  for (let turn = 0; streams.length < 2 && turn < 100; turn++) await new Promise(setImmediate);
  await send(1, line("process_generating", "event2"), line("process_completed", "event2"), line("close_stream"));
  const known = ["process_completed", "process_generating", "process_completed", "close_stream"];
  assert.deepEqual(messages(await text).slice(0, 4), known);
  assert.equal(streams.length, 2);

  await made.send(JOIN, body(5));
  const both = (await made.send(STREAM)).text();
  const writer = streams[2].writable.getWriter();
  const write = (...lines) => writer.write(new TextEncoder().encode(lines.join("")));
  await write(line("process_completed", "event6"));
  await made.send(JOIN, body(6)); // answered after its event is over
  await write(line("process_completed", "event7"), line("process_completed", "event5"), line("close_stream"));
  writer.close();
  assert.equal(messages(await both)[3], "close_stream");
  await made.send(JOIN, body(7)); // as well

  await made.send(JOIN, body(3));
  const last = (await made.send(STREAM)).text();
  await send(3, line("process_completed", "event3"), line("close_stream"));
  assert.deepEqual(messages(await last).slice(0, 2), ["process_completed", "close_stream"]);

  await made.send(JOIN, body(3));
  const broken = (await made.send(STREAM)).text();
  await send(4, line("process_starts", "event3")); // and breaks off
  assert.deepEqual(messages(await broken), ["process_starts", "unexpected_error", "close_stream"]);
  await made.send(JOIN, body(4));
  const next = (await made.send(STREAM)).text();
  await send(5, line("process_completed", "event4") + line("close_stream"));
  assert.deepEqual(messages(await next).slice(0, 2), ["process_completed", "close_stream"]);
  assert.equal(streams.length, 6, "events that have been ended are not waited for");
});

test("a stream on which nothing arrives any more, not even heartbeats, ends the events that wait for it", async () => {
  mock.timers.enable({ apis: ["setInterval"] });
  const beat = new TextEncoder().encode('data: {"msg":"heartbeat"}\n\n');
  let controller;
  const stalled = new ReadableStream({ start: (given) => (controller = given) });
  const { counts, made } = transport(async () => new Response(stalled));
  const text = (await made.send(STREAM)).text();
  const silent = async (seconds) => {
    for (let passed = 0; passed < seconds; passed += 15) mock.timers.tick(15_000);
    await new Promise(setImmediate);
  };
  for (let i = 0; i < 4; i++) {
    await silent(45);
    controller.enqueue(beat);
    await new Promise(setImmediate);
  }
  assert.equal(counts.lost, 0);
  await silent(60);
  mock.timers.reset();
  const first = await Promise.race([text, new Promise((resolve) => setTimeout(resolve, 500, "pending"))]);
  assert.deepEqual(messages(first).slice(-3), ["heartbeat", "unexpected_error", "close_stream"]);
  assert.equal(counts.lost, 1);
});

test("a request aborted by the page does not count as a lost server", async () => {
  const ended = Object.assign(new Error("ended"), { name: "AbortError" });
  const { counts, made } = transport(() => Promise.reject(ended));
  await assert.rejects(made.send(STREAM), { name: "AbortError" });
  await assert.rejects(made.send("http://here/file.wav"), { name: "AbortError" });
  assert.equal((await made.send(CALL, body(4))).status, 503);
  assert.deepEqual([counts.lost, counts.missed], [0, 0]);
});

test("requests that are not answered when the server is gone end some time later, whenever they were sent", async () => {
  const timers = [];
  const calls = [];
  const aborted = new DOMException("Fetch is aborted", "AbortError"); // what some browsers reject with, whatever the reason
  const fetch = (url, { signal }) =>
    new Promise((answer, fail) => {
      signal.addEventListener("abort", () => fail(aborted));
      calls.push({ answer: () => answer(new Response('{"data":[1]}')) });
    });
  let lost = 0;
  const after = (_ms, done) => timers.push(done);
  const made = new Transport({ fetch, answers: new LatestAnswers([]), version: "v1", lost: () => (lost += 1), useless() {}, missed() {}, unsent() {}, after });
  const joins = made.send(JOIN, body(1));
  timers.splice(0).forEach((done) => done());
  assert.equal((await joins).status, 503, "no matter whether the server is gone");
  const [answered, run, join, stream] = [CALL, CALL, JOIN, STREAM].map((url) => made.send(url, body(1)));
  const file = made.send("http://here/file.wav");
  const page = new AbortController();
  const left = made.send("http://here/file.wav", { signal: page.signal });
  assert.equal(timers.length, 1, "of the event of the queue");
  made.watched(true);
  assert.equal(timers.length, 1 + 6);
  const late = made.send(CALL, body(1));
  calls[1].answer();
  assert.deepEqual(await (await answered).json(), { data: [1] });
  page.abort();
  await assert.rejects(left, { name: "AbortError" });
  made.watched(false);
  const sentAfterwards = made.send(CALL, body(1));
  assert.equal(timers.length, 1 + 6 + 1);
  timers.forEach((done) => done());
  for (const event of [run, join, late]) assert.equal((await event).status, 503);
  assert.deepEqual(messages(await (await stream).text()), ["unexpected_error", "close_stream"]);
  await assert.rejects(file, { name: "TimeoutError" });
  calls.at(-1).answer();
  assert.equal((await sentAfterwards).status, 200);
  assert.equal(lost, 0, "the server is back");
});

// ---- the watch

// A watch with answers from the test: a server or an error. `calls` records its callbacks.
function watching() {
  const calls = [];
  const timers = [];
  let next = null;
  const watch = new ServerWatch({
    ask: async () => {
      if (next instanceof Error) throw next;
      return next;
    },
    gone: () => calls.push("gone"),
    back: (now, before) => calls.push(`${before.process} is ${now.process}`),
    later: (again, ms) => timers.push({ again, ms }),
    forget() {},
  });
  const look = (answer) => {
    next = answer;
    return watch.look();
  };
  return { watch, calls, timers, look };
}

const refusal = new TypeError("refused");
const slow = Object.assign(new Error("slow"), { name: "TimeoutError" });

test("a refused request means that the server is gone; it is polled faster until it is back", async () => {
  const { calls, timers, look } = watching();
  await look({ process: "a" });
  await look(refusal);
  assert.deepEqual(calls, ["gone"]);
  await look(refusal);
  assert.deepEqual(calls, ["gone"]);
  assert.ok(timers.at(-1).ms < timers[0].ms);
  await look({ process: "b" });
  assert.deepEqual(calls, ["gone", "a is b"]);
});

test("one timeout is tolerated, two in a row mean that the server is gone", async () => {
  const { calls, look } = watching();
  await look({ process: "a" });
  await look(slow);
  await look({ process: "a" });
  await look(slow);
  assert.deepEqual(calls, []);
  await look(slow);
  assert.deepEqual(calls, ["gone"]);
});

test("timeouts do not count while answers to other requests arrive, as when the page loads slowly", async () => {
  const { watch, calls, look } = watching();
  for (let i = 0; i < 4; i++) {
    await look(slow);
    watch.heard();
  }
  await look(slow);
  assert.deepEqual(calls, []);
  await look(slow);
  assert.deepEqual(calls, ["gone"]);
  watch.heard();
  assert.ok(watch.away, "an answer from before the outage may arrive late");
});

test("a new server process is noticed without an outage", async () => {
  const { calls, look } = watching();
  await look({ process: "a" });
  await look({ process: "b" });
  assert.deepEqual(calls, ["a is b"]);
});

test("a failed request marks the server as gone; waiting requests continue when it is back", async () => {
  const { watch, calls, look } = watching();
  await look({ process: "a" });
  await watch.present();
  watch.lost();
  assert.deepEqual(calls, ["gone"]);
  let there = false;
  const present = watch.present().then(() => (there = true));
  await Promise.resolve();
  assert.equal(there, false);
  await watch.asking;
  await look({ process: "a" });
  await present;
  assert.deepEqual(calls, ["gone", "a is a"]);
});
