// Links to the files of the player's sounds.

import assert from "node:assert/strict";
import { test } from "node:test";

import { FileLinks } from "../../../../web/static/player/file_links.js";
import { LINKS_LAST } from "../../../../web/static/speak/link_refresh.js";

const soon = () => new Promise((resolve) => setTimeout(resolve, 0));

test("new links to each sound's files are requested when they are needed and the former ones are old", async () => {
  const asked = [];
  let now = 0;
  const links = new FileLinks((id) => asked.push(id), () => now, () => {});
  const [a, b] = [links.of("a"), links.of("b")];
  links.arrived({ id: "b", links: { wav: "b1" } });
  links.arrived({ id: "unknown", links: {} });
  links.arrived({ id: "a", links: { wav: "a1" } });
  assert.deepEqual([await a, await b], [{ wav: "a1" }, { wav: "b1" }]);
  now = LINKS_LAST - 1;
  assert.deepEqual(await links.of("a"), { wav: "a1" });
  assert.deepEqual(asked, ["a", "b"]);
  now = LINKS_LAST;
  const later = links.of("a");
  await soon();
  assert.deepEqual(asked, ["a", "b", "a"]);
  links.arrived({ id: "a", links: { wav: "a2" } });
  assert.deepEqual(await later, { wav: "a2" });
});
