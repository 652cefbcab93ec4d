// The Library tab: search, order, portraits, the form of a voice, and formatting of figures.

import assert from "node:assert/strict";
import { test } from "node:test";

import { english } from "../helpers.js";
import { UploadCancelled } from "../../../../web/static/connection/upload.js";
import { ImportedFiles } from "../../../../web/static/library/files.js";
import { changes, outdated } from "../../../../web/static/library/form/form_fields.js";
import { byFile } from "../../../../web/static/library/offers.js";
import { bytesIn, folded, found, hues, languageName, ordered, tagsOf, withReplacement } from "../../../../web/static/library/voices.js";
import { useWords } from "../../../../web/static/ui/words.js";

useWords(english("library"));

const voice = (name, more = {}) => ({
  name, description: "", tags: [], language: "en", made: "2026-11-21T08:00:00+00:00", seconds: 5, spoken: 0, ...more,
});
const named = (voices) => voices.map(({ name }) => name);

test("search ignores case and accents in name, description, tags and language", () => {
  const voices = [
    voice("José", { description: "Warm and low" }),
    voice("Ann", { tags: ["Grand-père"] }),
    voice("Zoë", { language: "de" }),
  ];
  const cases = {
    "": 3, "  ": 3, jose: 1, "LOW josé": 1, pere: 1, german: 1, de: 1, "zoe deutsch": 0, "ann low": 0, "(": 0, "\\": 0,
  };
  for (const [search, count] of Object.entries(cases)) assert.equal(found(voices, search, "en").length, count, search);
  assert.deepEqual(named(found(voices, "zoe deutsch", "de")), ["Zoë"], "the language's name in the language of the page");
});

test("voices are sorted by each order", () => {
  const voices = [
    voice("beta", { seconds: 9, spoken: 8 }),
    voice("Alpha", { spoken: 3 }),
    voice("voice 10", { made: "2026-11-22T08:00:00+00:00" }),
    voice("voice 9"),
  ];
  assert.deepEqual(named(ordered(voices, "name", "en")), ["Alpha", "beta", "voice 9", "voice 10"]);
  assert.deepEqual(named(ordered(voices, "newest", "en")), ["voice 10", "Alpha", "beta", "voice 9"]);
  assert.deepEqual(named(ordered(voices, "used", "en")), ["beta", "Alpha", "voice 9", "voice 10"]);
  assert.deepEqual(named(ordered(voices, "longest", "en")), ["beta", "Alpha", "voice 9", "voice 10"]);
  assert.deepEqual(named(ordered(voices, "no such order", "en")), ["Alpha", "beta", "voice 9", "voice 10"]);
  assert.equal(voices[0].name, "beta", "the given list is unchanged");
});

test("tags are separated by commas of any script", () => {
  assert.deepEqual(tagsOf(" warm, story ,,"), ["warm", "story"]);
  assert.deepEqual(tagsOf("温かい、物語，x"), ["温かい", "物語", "x"]);
  assert.deepEqual(tagsOf(""), []);
});

test("byte counts are formatted with units", () => {
  const cases = { 0: "0 bytes", 1: "1 byte", 999: "999 bytes", 1000: "1 kB", 116400: "116 kB", 12_345_678: "12.3 MB", 12_360_000: "12.4 MB", 3e12: "3 TB" };
  for (const [count, text] of Object.entries(cases)) assert.equal(bytesIn(Number(count), "en"), text);
  assert.equal(bytesIn(12_345_678, "de"), "12,3 MB");
});

test("portrait colours are well apart and stay the same when voices are added", () => {
  // All start at the same angle, which is the worst case.
  const voices = Array.from({ length: 40 }, (_, i) => ({ id: "0".repeat(30) + (10 + i), made: `2026-11-${10 + i}` }));
  for (const count of [1, 2, 6, 12, 40]) {
    const given = hues(voices.slice(0, count).reverse());
    const before = hues(voices.slice(0, count - 1));
    assert.deepEqual([given.size, before.size], [count, count - 1]);
    for (const [voice, hue] of before) assert.equal(given.get(voice), hue);
    const fewer = hues(voices.slice(1, count), given);
    for (const { id } of voices.slice(0, count)) assert.equal(fewer.get(id), given.get(id), "also when a voice is removed");
    const angles = [...given.values()].sort((a, b) => a - b);
    assert.ok(angles.every((hue) => hue >= 0 && hue < 360));
    const gaps = angles.map((hue, i) => (i ? hue - angles[i - 1] : hue + 360 - angles.at(-1)));
    assert.notEqual(hues([{ ...voices[0], id: "f".repeat(32) }]).get("f".repeat(32)), given.get(voices[0].id), "by their ids");
    if (count <= 12) assert.ok(Math.min(...gaps) >= 180 / count - 1e-9, `${count}`);
  }
});

test("portrait colours do not depend on the order of voices that were made at once", () => {
  const voices = ["a", "b"].map((id) => ({ id: id.repeat(32), made: "2026-11-10" }));
  assert.deepEqual([...hues(voices)].sort(), [...hues(voices.toReversed())].sort());
  const same = ["1", "2"].map((id) => ({ id: id + "0".repeat(31), made: "2026-11-10" })); // which begin at the same angle
  assert.deepEqual([...hues(same)].sort(), [...hues(same.toReversed())].sort());
});

test("the replacement of a deleted voice is replaced when it is deleted as well", () => {
  const first = withReplacement(new Map(), "zoe", "anna");
  const then = withReplacement(first, "anna", "ben");
  assert.deepEqual([...then], [["zoe", "ben"], ["anna", "ben"]]);
  assert.deepEqual([...withReplacement(then, "zoe", "carl")], [["zoe", "carl"], ["anna", "ben"]]);
  assert.deepEqual([...first], [["zoe", "anna"]], "the given map is unchanged");
});

// A form with these texts in its fields.
const formOf = (texts) => ({ elements: Object.fromEntries(Object.entries(texts).map(([name, value]) => [name, { value }])) });

test("the changes of a form are the fields that differ from the voice", () => {
  const ben = voice("Ben", { description: "Low", tags: ["warm", "story"] });
  const texts = { name: " Ben ", language: "en", description: "Low", tags: "warm,story" };
  assert.deepEqual(changes(formOf(texts), ben), {});
  assert.deepEqual(changes(formOf({ ...texts, description: "", tags: "" }), ben), { description: "", tags: [] });
  assert.deepEqual(changes(formOf({ name: "Zoe" }), ben), { name: "Zoe" }, "a form for the name only");
});

test("a field that the user has not changed follows a change made elsewhere", () => {
  const ben = voice("Ben", { description: "Low", tags: ["warm"] });
  const form = formOf({ name: "Ben", language: "en", description: "Low, ", tags: "warm" });
  const renamed = { ...ben, name: "Mia", language: "fr", tags: ["cold"] };
  assert.deepEqual(outdated(form, ben, renamed), ["name", "language", "tags"]);
  assert.deepEqual(outdated(form, ben, { ...ben, description: "High" }), [], "what the user has typed stays");
  assert.deepEqual(outdated(formOf({ name: "Ben " }), ben, { ...ben }), [], "so do spaces that are typed just now");
});

// Uploads that end when the test ends them. A further one for the same use cancels the first.
function uploadsOf() {
  const [ends, uses] = [new Map(), new Map()];
  const cancel = (use) => uses.get(use)?.();
  const send = (file, use = file) => new Promise((resolve, reject) => {
    const cancelled = () => reject(new UploadCancelled());
    cancel(use);
    uses.set(use, cancelled);
    ends.set(file.name, { cancel: cancelled, done: () => resolve({ path: `/${file.name}` }) });
  });
  return { ends, send, cancel, cancelAll: () => uses.forEach((cancel) => cancel()) };
}
const filesNamed = (...names) => names.map((name) => ({ name, size: 1 }));

test("of pictures chosen in quick succession the last one counts, in whatever order they are uploaded", async () => {
  const [sent, said] = [[], []];
  const uploads = uploadsOf();
  const trigger = (_event, { id, path = "none", name = "" }) => sent.push(`${id} ${path} ${name}`.trim());
  const files = new ImportedFiles({ props: { max_mb: 1 }, trigger, uploads }, (text) => said.push(text));
  const [large, small, late, other] = filesNamed("large", "small", "late", "other");
  const [first, second, third] = [["anna", large], ["anna", small], ["ben", other]].map((choice) => files.sendPicture(...choice));
  for (const name of ["small", "large", "other"]) uploads.ends.get(name).done();
  await Promise.all([first, second, third]);
  assert.deepEqual(sent, ["anna /small small", "ben /other other"]);
  const fourth = files.sendPicture("anna", late);
  files.sendPicture("anna", null);
  await fourth; // it is cancelled
  assert.deepEqual(sent.slice(2), ["anna none"], "removed meanwhile");
  assert.deepEqual(said, ["large", "small", "other", "late"].map((name) => `Uploading “${name}”…`), "no other message");
});

test("an import that is cancelled imports nothing, and a picture that is uploaded meanwhile is not cancelled", async () => {
  useWords(english("library", "connection"));
  const [said, sent, discarded] = [[], [], []];
  const uploads = uploadsOf();
  const discard = (paths) => discarded.push(...paths);
  const about = { props: { max_mb: 1 }, trigger: (...event) => sent.push(event), uploads, discard };
  const files = new ImportedFiles(about, (text) => said.push(text));
  const [one, two, three, picture] = filesNamed("one", "two", "three", "picture");
  const first = files.importAll([{ file: one }]);
  await new Promise(setImmediate);
  uploads.ends.get("one").done();
  await new Promise(setImmediate);
  assert.equal(sent.length, 1);
  assert.match(sent[0][1].id, /^[0-9a-f]{32}$/); // as the server takes them
  files.answered({ id: sent[0][1].id, kind: "good", text: "Imported.", lines: [], imported: 1 });
  await first;
  const importing = files.importAll([one, two, three].map((file) => ({ file })));
  await new Promise(setImmediate);
  uploads.ends.get("one").done();
  await new Promise(setImmediate);
  const choosing = files.sendPicture("anna", picture);
  uploads.ends.get("two").cancel();
  await importing;
  assert.deepEqual([sent.length, said.at(-1)], [1, "The upload was cancelled."]);
  assert.deepEqual(discarded, ["/one"], "an address can keep only so many files on the server");
  uploads.ends.get("picture").cancel();
  await choosing;
  assert.deepEqual([sent.length, said.at(-1)], [1, "The upload was cancelled."]);
  const last = files.importAll([{ file: three }]);
  const again = files.sendPicture("anna", picture);
  await new Promise(setImmediate);
  files.forget();
  await Promise.all([last, again]);
  assert.deepEqual([sent.length, said.at(-1)], [1, ""], "all data of the owner was deleted");
});

test("chosen names are grouped by file", () => {
  const chosen = [{ file: 1, voice: 0, name: "Zoe 2" }, { file: 0, voice: 0, name: "Ben 2" }, { file: 1, voice: 3, name: "Ida" }];
  assert.deepEqual(byFile(chosen), [{ file: 1, names: { 0: "Zoe 2", 3: "Ida" } }, { file: 0, names: { 0: "Ben 2" } }]);
});

test("an invalid language tag is shown unchanged", () => {
  assert.equal(languageName("pt-BR", "en"), "Brazilian Portuguese");
  assert.equal(languageName("old norse!", "en"), "old norse!");
  assert.equal(languageName("", "en"), "");
  assert.equal(folded("ÀÉ"), "ae");
});
