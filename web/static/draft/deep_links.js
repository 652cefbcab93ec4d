// URLs that open the page at a voice, a take or a script: ?voice=ID, ?take=ID, ?script=ID. They grant no access: without
// access to the item, the page shows a message and opens as usual.

import { create } from "../ui/elements.js";
import { words } from "../ui/words.js";

const TABS = { voice: "speak", take: "speak", script: "script" };
const MISSING = { voice: "links.no_voice", take: "links.no_take", script: "links.no_script" };
const ID = /^[0-9a-f]{32}$/;

// The target of a URL: { kind, id, tab, valid }; null for none.
export function linked(search) {
  const asked = new URLSearchParams(search);
  const kind = Object.keys(TABS).find((name) => asked.has(name));
  return kind ? { kind, id: asked.get(kind), tab: TABS[kind], valid: ID.test(asked.get(kind)) } : null;
}

// The page's URL with this target instead of its current one. kind: undefined for no target.
export function addressOf(href, kind, id) {
  const address = new URL(href);
  Object.keys(TABS).forEach((name) => address.searchParams.delete(name));
  if (kind) address.searchParams.set(kind, id);
  address.hash = "";
  return address.href;
}

let link = null; // the page's target, until `answer` is called
let tab = null; // the target's tab, until `takeTab` is called; `answer` may be called first

// Called when the page is loaded. Removes the target from the URL, so that a reload keeps what the page shows.
export function arrive() {
  link = linked(location.search);
  tab = link?.tab ?? null;
  if (link) history.replaceState(history.state, "", addressOf(location.href));
  return link;
}

// The target's id; null if it is invalid or of another kind.
export const named = (kind) => (link?.kind === kind && link.valid ? link.id : null);

// Returns the target's tab once, then null.
export function takeTab() {
  const first = tab;
  tab = null;
  return first;
}

// Called when the target has been looked up.
export function answer(kind, isThere) {
  if (link?.kind !== kind) return;
  link = null;
  if (!isThere) tell(words(MISSING[kind]), "bad");
}

export async function copyLink(kind, id) {
  const text = addressOf(location.href, kind, id);
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    if (!copyOld(text)) return tell(text, "good"); // to be copied by hand
  }
  return tell(words("links.copied"), "good");
}

// For plain http pages, which have no clipboard API.
function copyOld(text) {
  const held = document.activeElement;
  const field = create("textarea", { value: text });
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  held.focus({ preventScroll: true });
  return done;
}

function tell(text, kind) {
  document.querySelector(".rp-link-notice")?.remove();
  const line = create("p", { class: `rp-link-notice rp-notice rp-${kind}`, role: kind === "bad" ? "alert" : "status", text });
  document.querySelector("#rp-tabs").before(line);
  const away = (event) => {
    if (line.isConnected && event.isTrusted) line.remove();
    removeEventListener("click", away, true);
  };
  addEventListener("click", away, true); // removed on the press, it would move the page under the pointer, and the click be lost
}
