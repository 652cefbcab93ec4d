// Announces changes to the tabs of this page and to this browser's other pages. Its value: { what, nonce }. Its events are
// named after the changed data: "voices", "history", "scripts", "words" (the dictionary). "voice_list" is for the Library, whose
// voices also show their use in the history; a change that is "listed", one of voices, is in its list on this page already. A page
// that regains the focus is refreshed. When the page is opened, the value has `owner`, too: event "opened", after "reopen" if the
// page was opened with another owner's voice. When all of the owner's data was deleted, on this page or another: "forgotten".

import { channelToOthers } from "../draft/other_pages.js";
import { draft } from "../draft/page_draft.js";

const ALL = ["voices", "history", "scripts", "words"];
const LISTED = "listed";
// Of a change; of others, one of its name.
const EVENTS = { voices: ["voices", "voice_list"], [LISTED]: ["voices"], history: ["history", "voice_list"] };
const REST = 2000; // ms: focus comes and goes quickly while people click around

const common = (name) => (name === LISTED ? "voices" : name); // a change as other pages know it

export function mount({ props, trigger, watch }) {
  const others = channelToOthers("reprise.changes");
  const stale = new Set();
  let shown = performance.now();

  function tell(what) {
    for (const name of what) stale.delete(common(name));
    for (const event of new Set(what.flatMap((name) => EVENTS[name] ?? [name]))) trigger(event);
  }

  function opened(owner) {
    if (draft.opened(owner) && draft.voice) trigger("reopen");
    trigger("opened");
  }

  function refresh() {
    if (document.hidden) return;
    const now = performance.now();
    const what = now - shown > REST ? ALL : [...stale];
    shown = now;
    tell(what);
  }

  watch("value", () => {
    const { what: changed = "", owner } = props.value ?? {};
    const what = changed.split(" ").filter(Boolean);
    if (owner) opened(owner);
    others?.postMessage(what.map(common));
    tell(what);
  });

  if (others) {
    others.onmessage = ({ data }) => {
      data.filter((name) => ALL.includes(name)).forEach((name) => stale.add(name));
      if (document.hasFocus()) refresh();
    };
  }
  document.addEventListener("reprise:forgotten", () => trigger("forgotten"));
  addEventListener("focus", refresh);
  document.addEventListener("visibilitychange", refresh);
}
