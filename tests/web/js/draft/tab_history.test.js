// Back and Forward between tabs.

import assert from "node:assert/strict";
import test from "node:test";

import { TabHistory } from "../../../../web/static/draft/tab_history.js";

// The browser's history, and a page that calls `selected` whenever a tab is shown.
function page(state = null) {
  const entries = [state];
  let at = 0;
  const history = {
    get state() {
      return entries[at];
    },
    replaceState: (next) => (entries[at] = next),
    pushState: (next) => entries.splice(++at, entries.length, next),
  };
  const shown = [];
  const tabs = new TabHistory(history, (tab) => select(tab));
  const select = (tab) => (shown.push(tab), tabs.selected(tab));
  const go = (by) => tabs.popped(entries[(at += by)]);
  return { entries, tabs, select, go, shown };
}

test("Back and Forward show the tabs before and after, and add no entries", () => {
  const { entries, tabs, select, go, shown } = page();
  tabs.begin("speak");
  ["new", "new", "library"].forEach(select);
  [-1, -1, 1].forEach(go);
  assert.deepEqual(shown, ["new", "new", "library", "new", "speak", "new"]);
  assert.deepEqual(entries.map(({ tab }) => tab), ["speak", "new", "library"]);
  select("status");
  assert.deepEqual(entries.map(({ tab }) => tab), ["speak", "new", "status"]);
});

test("tabs that are still being shown after quick steps add no entries", () => {
  const { entries, tabs, select, go } = page();
  const late = [];
  tabs.begin("speak");
  ["new", "library", "speak"].forEach(select);
  tabs.show = (tab) => late.push(tab);
  [-1, -1, 1].forEach(go);
  late.forEach(select);
  assert.deepEqual(entries.map(({ tab }) => tab), ["speak", "new", "library", "speak"]);
  select("new");
  assert.deepEqual(entries.map(({ tab }) => tab), ["speak", "new", "library", "new"]);
});

test("a tab that is restored after a reload adds no entry", () => {
  const { entries, tabs, select } = page({ tab: "library", other: 1 });
  select("speak");
  tabs.begin("library");
  select("library");
  tabs.begin("speak"); // the server is back
  assert.deepEqual(entries, [{ tab: "library", other: 1 }]);
});

test("an entry without a tab changes nothing", () => {
  const { tabs, shown } = page();
  tabs.popped(null);
  assert.deepEqual(shown, []);
});
