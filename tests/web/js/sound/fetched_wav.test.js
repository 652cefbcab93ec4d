// Sounds of the server over a connection that breaks off or dies silently.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { english } from "../helpers.js";
import { fetchedWav } from "../../../../web/static/sound/fetched_wav.js";
import { encodeWav } from "../../../../web/static/sound/wav.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("player"));

const unreachable = { message: english("player")["player.unreachable"] };
const passed = () => new Promise((done) => setImmediate(done));

// Has `fetch` answer with a body into which the test writes.
function answering() {
  let body;
  mock.method(globalThis, "fetch", async (_url, { signal }) => {
    const start = (controller) => (body = controller);
    signal.addEventListener("abort", () => body.error(signal.reason));
    return new Response(new ReadableStream({ start }));
  });
  return { write: (data) => body.enqueue(data), close: () => body.close(), fail: () => body.error(new TypeError("network error")) };
}

test("a sound that arrives slowly is whole; one that stops arriving is given up", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.reset());
  const wav = new Uint8Array(await new Blob([encodeWav(Int16Array.of(1, 2, 3), 8_000)]).arrayBuffer());
  const server = answering();
  const sound = fetchedWav("a");
  await passed();
  for (const byte of wav) {
    mock.timers.tick(20_000);
    server.write(Uint8Array.of(byte));
    await passed();
  }
  server.close();
  assert.deepEqual([...(await sound).samples], [1, 2, 3]);

  const dying = assert.rejects(fetchedWav("a"), unreachable);
  await passed();
  server.write(wav.slice(0, 20));
  await passed();
  mock.timers.tick(30_000);
  await dying;

  const broken = assert.rejects(fetchedWav("a"), unreachable);
  await passed();
  server.fail();
  await broken;
});

test("a sound whose answer does not begin is given up", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.reset());
  mock.method(globalThis, "fetch", (_url, { signal }) => {
    return new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
  });
  const dying = assert.rejects(fetchedWav("a"), unreachable);
  mock.timers.tick(30_000);
  await dying;
});
