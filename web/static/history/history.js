// The history, one row per entry. Rows are reused, so that nothing jumps when a new list arrives.

import { EntryRow } from "./entry_row.js";
import { emptiness } from "./facts.js";
import { marks } from "../connection/marks.js";
import { forgetEverything } from "../draft/page_draft.js";
import { emptyState } from "../ui/empty.js";
import { deletionFailed, finishDeletions } from "../ui/undo.js";
import { words } from "../ui/words.js";

const LINKS_LAST = 8 * 60_000; // ms: a little less than the server's links are valid

export function mount({ element, props, trigger, watch }) {
  const list = element.querySelector(".rp-entries");
  const count = element.querySelector(".rp-history-count");
  const more = element.querySelector(".rp-more");
  const older = element.querySelector(".rp-history-older");
  const rows = new Map(); // by id
  let signed = 0;

  function show(value) {
    const entries = value?.entries ?? [];
    const ids = new Set(entries.map(({ id }) => id));
    const focused = [...rows.values()].find(({ node }) => node.contains(document.activeElement));
    const after = focused && !ids.has(focused.entry.id) ? next(focused, ids) : null;
    for (const [id, row] of rows) {
      if (ids.has(id)) continue;
      finishDeletions(row.node);
      row.node.remove();
      rows.delete(id);
    }
    const last = entries.findLastIndex(({ id }) => rows.has(id));
    const added = entries[last + 1]; // by “Show more”
    const held = more === document.activeElement;
    entries.forEach((entry, place) => {
      const row = rows.get(entry.id) ?? new EntryRow(entry, trigger);
      rows.set(entry.id, row);
      row.update(entry);
      if (list.children[place] !== row.node) list.insertBefore(row.node, list.children[place] ?? null);
    });
    if (focused && !ids.has(focused.entry.id)) (after?.play ?? count).focus();
    tell(value, entries.length);
    if (held && more.hidden) (rows.get(added?.id)?.play ?? count).focus();
  }

  // The row that takes the place of a removed one.
  function next(row, ids) {
    const all = [...rows.values()].filter(({ entry }) => ids.has(entry.id) || entry.id === row.entry.id);
    const place = all.indexOf(row);
    return all[place + 1] ?? all[place - 1] ?? null;
  }

  function tell(value, shown) {
    signed = Date.now();
    count.tabIndex = -1;
    const none = Boolean(value) && !shown;
    const first = none && value.unfiltered; // there is nothing to search in
    if (none) count.replaceChildren(...emptyState("history", emptiness(value), first ? "speak" : "", words("tab.speak")));
    else count.textContent = value ? words("history.count", { count: value.total }) : "";
    count.classList.toggle("rp-empty", none);
    document.querySelector("#rp-history-find")?.toggleAttribute("data-idle", first);
    more.hidden = !value?.more;
    older.hidden = !value || value.more || shown >= value.total;
  }

  function receive() {
    const { forget, refused } = props.value ?? {};
    if (forget) forgetEverything();
    if (refused === undefined) show(props.value);
    else deletionFailed(rows.get(refused)?.node);
  }

  marks.connect((id, starred) => rows.get(id)?.update({ ...rows.get(id).entry, starred }));
  watch("value", receive);
  receive(); // the value sent before this script ran
  more.addEventListener("click", () => trigger("more", {}));
  for (const event of ["playing", "stopped"]) {
    document.addEventListener(`reprise:${event}`, ({ detail }) => rows.get(detail.id)?.sound(event === "playing"));
  }
  // Takes of a script are not announced one by one.
  document.addEventListener("reprise:tab", ({ detail }) => detail === "history" && trigger("shown", {}));
  setInterval(() => {
    if (rows.size && !document.hidden && Date.now() - signed > LINKS_LAST) trigger("refresh", {});
  }, 30_000);
}
