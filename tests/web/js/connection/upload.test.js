// Uploads: their progress, their errors, and connections on which nothing is sent any more.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { english } from "../helpers.js";
import { UploadCancelled, uploadFile, UploadLost } from "../../../../web/static/connection/upload.js";
import { Uploads } from "../../../../web/static/new_voice/uploads.js";
import { useWords } from "../../../../web/static/ui/words.js";

// A request that a test answers.
class Request {
  upload = {};

  open(method, url) {
    Object.assign(this, { method, url });
  }

  send(form) {
    this.file = form.get("files");
  }

  abort() {
    this.onabort();
    this.onloadend();
  }

  answer(status, responseText) {
    Object.assign(this, { status, responseText });
    this.onload();
    this.onloadend();
  }
}

const FILE = new File(["sound"], "clip.wav");

test("a file is sent as Gradio's server takes it, and its progress is told", async () => {
  const request = new Request();
  const shares = [];
  const sent = uploadFile(FILE, (share) => shares.push(share), null, request);
  assert.deepEqual([request.method, request.url, request.file.name], ["POST", "./gradio_api/upload", "clip.wav"]);
  for (const loaded of [1, 4]) request.upload.onprogress({ loaded, total: 4 });
  request.answer(200, '["/uploads/clip.wav"]');
  assert.deepEqual(await sent, { path: "/uploads/clip.wav" });
  assert.deepEqual(shares, [0.25, 1]);
});

test("of a refused file the server's own sentence is told, and nothing of a proxy", async () => {
  const answers = [
    [408, '{"error":"It stalled."}', "It stalled."],
    ...["<html>", "{}", "null"].map((text) => [500, text, ""]),
    [200, "<html>", ""], // a page to log in
  ];
  for (const [status, text, sentence] of answers) {
    const request = new Request();
    const sent = uploadFile(FILE, () => {}, null, request);
    request.answer(status, text);
    await assert.rejects(sent, (error) => error.message === sentence && !(error instanceof UploadLost));
  }
});

test("a lost connection, a proxy without its server, and an upload that takes too long are told apart from a refusal", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const requests = [1, 2, 3].map(() => new Request());
  const [lost, proxied, slow] = requests.map((request) => uploadFile(new File([new Uint8Array(1e6)], "a.wav"), () => {}, null, request));
  requests[0].onerror();
  requests[1].answer(502, "<html>");
  for (const sent of [lost, proxied]) await assert.rejects(sent, UploadLost);
  let ended = false;
  slow.catch(() => (ended = true));
  mock.timers.tick(160_000); // the server's limit
  await new Promise(setImmediate);
  assert.equal(ended, false);
  mock.timers.tick(10_000);
  mock.timers.reset();
  await assert.rejects(slow, UploadLost);
});

test("an upload that the user cancels ends with a sentence, and is not sent again", async () => {
  useWords(english("connection"));
  const cancelling = new AbortController();
  const requests = [];
  const upload = (...sent) => uploadFile(...sent, requests[requests.push(new Request()) - 1]);
  const uploads = new Uploads(upload, { lost: () => {}, present: async () => {} });
  const sent = uploads.send(FILE, () => {}, cancelling.signal);
  await new Promise(setImmediate);
  cancelling.abort();
  await assert.rejects(sent, (error) => error instanceof UploadCancelled && error.message === "The upload was cancelled.");
  assert.equal(requests.length, 1);
});

test("an upload that waits for the server can be cancelled", async () => {
  useWords(english("connection"));
  const cancelling = new AbortController();
  const request = new Request();
  const upload = (...sent) => uploadFile(...sent, request);
  const sent = new Uploads(upload, { lost: () => {}, present: () => new Promise(() => {}) }).send(FILE, () => {}, cancelling.signal);
  cancelling.abort();
  await assert.rejects(sent, { message: "The upload was cancelled." });
});

test("a clip whose upload was lost is sent again when the server is there; a refused one is not", async () => {
  const events = [];
  const ends = [new UploadLost(), new UploadLost(), { path: "/uploads/a.wav" }, new Error("Too large.")];
  const upload = async () => {
    events.push("sent");
    const end = ends.shift();
    if (end instanceof Error) throw end;
    return end;
  };
  const uploads = new Uploads(upload, { lost: () => events.push("lost"), present: async () => events.push("there") });
  assert.equal(await uploads.send(FILE), "/uploads/a.wav");
  assert.deepEqual(events, ["there", "sent", "lost", "there", "sent", "lost", "there", "sent"]);
  await assert.rejects(uploads.send(FILE), { message: "Too large." });
  ends.push(...Array(6).fill(new UploadLost())); // a proxy that answers each time, although the server is there
  await assert.rejects(uploads.send(FILE), UploadLost);
  assert.equal(ends.length, 1);
});
