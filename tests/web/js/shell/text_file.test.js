// Encodings of CSV files.

import assert from "node:assert/strict";
import { test } from "node:test";
import { decoded } from "../../../../web/static/shell/text_file.js";

const LINE = "Müller;Miller\r\n";

test("files of spreadsheets are read in each encoding that these save", () => {
  const utf16 = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(LINE, "utf16le")]);
  const bigEndian = Buffer.from(utf16).swap16();
  for (const bytes of [Buffer.from(LINE), Buffer.from(`\ufeff${LINE}`), utf16, bigEndian, Buffer.from(LINE, "latin1")]) {
    assert.equal(decoded(new Uint8Array(bytes)), LINE);
  }
  assert.equal(decoded(Uint8Array.of(0xff, 0x41)), "ÿA");
  assert.equal(decoded(Uint8Array.of(0xfe, 0x41)), "þA");
});
