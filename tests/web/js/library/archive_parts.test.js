// An archive of voices is cut into smaller archives that have its files between them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "../helpers.js";
import { partsOf } from "../../../../web/static/library/archive_parts.js";
import { UploadCancelled } from "../../../../web/static/connection/upload.js";
import { batchesOf, ImportedFiles } from "../../../../web/static/library/files.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("library"));

const bytesOf = (format, ...numbers) => {
  const data = new DataView(new ArrayBuffer(numbers.reduce((sum, _, i) => sum + Number(format[i]), 0)));
  let at = 0;
  numbers.forEach((number, i) => {
    if (format[i] === "8") data.setBigUint64(at, BigInt(number), true);
    else data[format[i] === "4" ? "setUint32" : "setUint16"](at, number, true);
    at += Number(format[i]);
  });
  return Buffer.from(data.buffer);
};

// An archive as ZipFile writes it, uncompressed. large: with the fields for archives beyond 4 GB.
function archive(files, { large = false, name = "all.zip", comment = "", reversed = false } = {}) {
  let place = 0;
  const [contents, records] = [[], []];
  for (const [name, content] of Object.entries(files)) {
    const sizes = [content.length, content.length];
    contents.push(bytesOf("4222224442", 0x04034b50, 20, 0, 0, 0, 0, 0, ...sizes, name.length), bytesOf("2", 0), Buffer.from(name), Buffer.from(content));
    const extra = large ? bytesOf("22888", 1, 24, ...sizes, place) : Buffer.alloc(0);
    const [size, packed, at] = large ? Array(3).fill(0xffffffff) : [...sizes, place];
    const record = bytesOf("42222224442222244", 0x02014b50, 20, 20, 0, 0, 0, 0, 0, packed, size, name.length, extra.length, 0, 0, 0, 0, at);
    records[reversed ? "unshift" : "push"](Buffer.concat([record, Buffer.from(name), extra]));
    place += 30 + name.length + content.length;
  }
  const size = records.reduce((sum, { length }) => sum + length, 0);
  const count = Object.keys(files).length;
  const end64 = bytesOf("4822448888", 0x06064b50, 44, 45, 45, 0, 0, count, count, size, place);
  const locator = bytesOf("4484", 0x07064b50, 0, place + size, 1);
  const shown = large ? [0xffff, 0xffff, 0xffffffff, 0xffffffff] : [count, count, size, place];
  const end = bytesOf("42222442", 0x06054b50, 0, 0, ...shown, comment.length);
  return new File([...contents, ...records, ...(large ? [end64, locator] : []), end, comment], name);
}

// The files of an archive, read by its directory.
async function unpacked(file) {
  const data = Buffer.from(await file.arrayBuffer());
  const end = data.length - 22;
  assert.equal(data.readUInt32LE(end), 0x06054b50);
  const found = {};
  let at = data.readUInt32LE(end + 16);
  assert.equal(at + data.readUInt32LE(end + 12), end);
  assert.equal(data.readUInt16LE(end + 8), data.readUInt16LE(end + 10));
  for (let i = 0; i < data.readUInt16LE(end + 10); i++) {
    const [length, extra] = [data.readUInt16LE(at + 28), data.readUInt16LE(at + 30)];
    const place = data.readUInt32LE(at + 42);
    assert.equal(data.readUInt32LE(place), 0x04034b50);
    const begin = place + 30 + length;
    found[data.toString("utf8", at + 46, at + 46 + length)] = data.toString("utf8", begin, begin + data.readUInt32LE(place + 22));
    at += 46 + length + extra;
  }
  return found;
}

const FILES = Object.fromEntries(Array.from({ length: 7 }, (_, i) => [`voice ${i}.voice`, String(i).repeat(20 + i)]));

for (const large of [false, true]) {
  test(`parts have all files${large ? ", also of an archive with fields for more than 4 GB" : ""}`, async () => {
    for (const most of [{ bytes: 1000, files: 3 }, { bytes: 150, files: 200 }, { bytes: 10, files: 200 }]) {
      const parts = await partsOf(archive(FILES, { large }), most);
      const found = await Promise.all(parts.map(unpacked));
      assert.deepEqual(Object.assign({}, ...found), FILES);
      assert.equal(found.reduce((sum, part) => sum + Object.keys(part).length, 0), 7, "each once");
      for (const part of found) assert.ok(Object.keys(part).length <= most.files);
      assert.deepEqual(parts.map(({ name }) => name), parts.map(() => "all.zip"));
    }
    assert.equal((await partsOf(archive(FILES, { large }), { bytes: 150, files: 200 })).length, 4);
  });
}

test("an archive with a comment is cut, also if this looks like the end of one", async () => {
  const mark = bytesOf("4", 0x06054b50).toString();
  for (const large of [false, true]) {
    for (const comment of ["Voices of a friend", "x".repeat(65_535), `${mark}${"x".repeat(30)}`, mark]) {
      const parts = await partsOf(archive(FILES, { large, comment }), { bytes: 1 << 20, files: 3 });
      assert.deepEqual(Object.assign({}, ...(await Promise.all(parts.map(unpacked)))), FILES);
      assert.equal(parts.length, 3);
    }
  }
});

test("bytes are those of the unpacked files if these are more", async () => {
  const file = archive({ a: "12345", b: "12345", c: "12345" });
  const data = Buffer.from(await file.arrayBuffer());
  for (const name of ["a", "b", "c"]) data.writeUInt32LE(600, data.lastIndexOf(name) - 46 + 24);
  const parts = await partsOf(new File([data], "all.zip"), { bytes: 1200, files: 2 });
  assert.deepEqual((await Promise.all(parts.map(unpacked))).map((part) => Object.keys(part).join("")), ["ab", "c"]);
});

test("a directory may name the files in another order than that of their bytes", async () => {
  const parts = await partsOf(archive(FILES, { reversed: true }), { bytes: 1 << 20, files: 3 });
  const found = await Promise.all(parts.map(unpacked));
  assert.deepEqual(found.map((part) => Object.keys(part).length), [3, 3, 1]);
  assert.deepEqual(Object.assign({}, ...found), FILES);
});

test("a small archive, and a file that is none, stay whole", async () => {
  const whole = archive(FILES);
  assert.deepEqual(await partsOf(whole, { bytes: 1 << 20, files: 7 }), [whole]);
  const data = Buffer.from(await whole.arrayBuffer());
  const odd = Buffer.from(data);
  odd.writeUInt32LE(0x02014b51, odd.readUInt32LE(odd.length - 6)); // no record of a file
  const damaged = [odd, data.subarray(0, -1), Buffer.concat([data.subarray(0, -6), Buffer.alloc(6, 0xff)]), Buffer.alloc(500), Buffer.alloc(0)];
  for (const content of damaged) {
    const file = new File([content], "odd.zip");
    assert.deepEqual(await partsOf(file, { bytes: 10, files: 1 }), [file]);
  }
});

test("a batch is no larger than what the server keeps", async () => {
  const chosen = Array.from({ length: 250 }, (_, i) => ({ file: new File(["x"], `${i}.voice`) }));
  const batches = await batchesOf(chosen, { bytes: 1000, files: 200 });
  assert.deepEqual(batches.map(({ length }) => length), [100, 100, 50]);
  const large = (size) => ({ file: { size, name: "", slice: () => new Blob() }, names: {} });
  const sizes = await batchesOf([large(60 << 20), large(40 << 20), large(1), large(200 << 20)], { bytes: 1, files: 1 });
  assert.deepEqual(sizes.map((batch) => batch.map(({ file }) => file.size >> 20)), [[60, 40], [0], [200]]);
  const parts = await batchesOf([chosen[0], { file: archive(FILES) }, chosen[1]], { bytes: 1000, files: 3 });
  assert.deepEqual(parts.map((batch) => batch.map(({ file }) => file.name)), [["0.voice"], ["all.zip"], ["all.zip"], ["all.zip", "1.voice"]]);
});

function imports(first = 0) {
  const [sent, said] = [[], []];
  const send = async (file) => file.name === "lost.voice" ? Promise.reject(new Error("lost")) : { path: `/${file.name}` };
  const trigger = (_, { id, files }) => sent.push({ id, files: files.map(({ name }) => name) });
  const files = new ImportedFiles({ props: { max_mb: 50 }, trigger, uploads: { send, cancelAll() {} } }, (...message) => said.push(message));
  const all = files.importAll(Array.from({ length: 201 }, (_, i) => ({ file: new File(["x"], i + first ? `${i}.voice` : "lost.voice") })));
  return { sent, said, files, all };
}

const turns = () => new Promise((resolve) => setImmediate(resolve));
const answer = (id, more) => ({ id, kind: "good", text: `Imported ${id.slice(-1)}.`, lines: [], offers: [], imported: 1, ...more });

test("batches are imported one after the other, and answered in one message", async () => {
  const { sent, said, files, all } = imports();
  await turns();
  assert.equal(sent.length, 1, "the next one waits");
  assert.equal(sent[0].files.length, 99);
  assert.equal(files.answered(answer("0".repeat(31) + "f")), false, "an answer to something else");
  assert.equal(files.answered(answer(sent[0].id, { kind: "bad", lines: ["Ben is damaged."], offers: [{ line: "Ann" }] })), true);
  await turns();
  assert.equal(sent.length, 2);
  files.answered(answer(sent[1].id, { kind: "bad", text: "No voice was imported.", imported: 0, lines: ["Carl is damaged."] }));
  await turns();
  files.answered(answer(sent[2].id));
  await all;
  const lost = "“lost.voice” could not be uploaded. Try again.";
  assert.deepEqual(said.at(-1), [`Imported 1. Imported 3. ${lost}`, "bad", ["Ben is damaged.", "Carl is damaged."], [{ line: "Ann" }]]);
});

test("a part without voices makes an import no failure", async () => {
  const { sent, said, files, all } = imports(1);
  for (const more of [{ kind: "bad", text: "No voice was imported.", imported: 0 }, {}, {}]) {
    await turns();
    files.answered(answer(sent.at(-1).id, more));
  }
  await all;
  assert.deepEqual(said.at(-1), ["Imported 2. Imported 3.", "good", [], []]);
});

test("an import without a voice says so once", async () => {
  const { sent, said, files, all } = imports(1);
  for (let batch = 0; batch < 3; batch++) {
    await turns();
    files.answered(answer(sent.at(-1).id, { kind: "bad", text: "No voice was imported.", imported: 0 }));
  }
  await all;
  assert.deepEqual(said.at(-1), ["No voice was imported.", "bad", [], []]);
});

test("a batch that fails as a whole is told", async () => {
  const { sent, said, files, all } = imports(1);
  for (const failed of [true, false, false]) {
    await turns();
    files.answered(failed ? { id: sent.at(-1).id, kind: "bad", text: "The disk is full.", lines: [] } : answer(sent.at(-1).id));
  }
  await all;
  assert.deepEqual(said.at(-1), ["The disk is full. Imported 2. Imported 3.", "bad", [], []]);
});

test("an import ends when all data is deleted", async () => {
  const { sent, said, files, all } = imports(1);
  await turns();
  files.forget();
  await all;
  assert.deepEqual([sent.length, said.at(-1)], [1, [""]]);
  const started = [];
  const send = (file) => new Promise((_, reject) => {
    started.push(file.name);
    files.uploads.cancelAll = () => reject(new UploadCancelled());
  });
  files.uploads = { send };
  const next = files.importAll([{ file: new File(["x"], "a.voice") }, { file: new File(["x"], "b.voice") }]);
  await turns();
  files.forget();
  await next;
  assert.deepEqual([started, sent.length, said.at(-1)], [["a.voice"], 1, [""]]);
});

test("an import ends when the server is gone, and names what was not imported", async () => {
  const { sent, said, files, all } = imports();
  await turns();
  files.answered(answer(sent[0].id));
  await turns();
  files.stop();
  await all;
  assert.equal(sent.length, 2);
  assert.ok(said.at(-1)[0].startsWith("Imported 1. “lost.voice” could not be uploaded."));
  assert.ok(said.at(-1)[0].includes("“200.voice” could not be uploaded."));
  assert.equal(files.answered(answer(sent[1].id)), false, "a late answer is shown by itself");
});
