// The parts of a file that is longer than a clip may be.

import assert from "node:assert/strict";
import test from "node:test";
import { LongFile } from "../../../../web/static/new_voice/clips/sound_file.js";

test("parts of a long file follow each other, and the last one ends with it", () => {
  const file = new LongFile(null, 200, 90);
  assert.equal(new LongFile(null, 180.1, 90).later(90), null);
  assert.deepEqual([0, 90, 110].map((start) => file.later(start)), [90, 110, null]);
  assert.deepEqual([0, 90, 110].map((start) => file.earlier(start)), [null, 0, 90]);
});

test("a file is long from the padding of lossy encoders on, and too long to be decoded whole from ten minutes on", () => {
  assert.deepEqual([null, 90.1, 90.3].map((seconds) => LongFile.is(seconds, 90)), [false, false, true]);
  assert.deepEqual([600, 601].map((seconds) => new LongFile(null, seconds, 90).tooLong), [false, true]);
});
