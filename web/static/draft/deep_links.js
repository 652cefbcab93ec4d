// Addresses that open the page at a voice, a take or a script: ?voice=ID, ?take=ID, ?script=ID. They hold no right: who
// may not see what an address names gets a sentence and the page as ever.

import { create } from "../ui/elements.js";
import { words } from "../ui/words.js";

const TABS = { voice: "speak", take: "speak", script: "script" };
const MISSING = { voice: "links.no_voice", take: "links.no_take", script: "links.no_script" };
const ID = /^[0-9a-f]{32}$/;

// What an address names: { kind, id, tab }; null for nothing.
export function linked(search) {
  const asked = new URLSearchParams(search);
  const kind = Object.keys(TABS).find((name) => asked.has(name));
  return kind ? { kind, id: asked.get(kind), tab: TABS[kind], valid: ID.test(asked.get(kind)) } : null;
}

// The address of the page with this instead of what it names now.
export function addressOf(href, kind, id) {
  const address = new URL(href);
  Object.keys(TABS).forEach((name) => address.searchParams.delete(name));
  if (kind) address.searchParams.set(kind, id);
  address.hash = "";
  return address.href;
}

let link = null; // of this page, until it is answered
let tab = null; // of it, until it is shown: the answer may come before

// Called when the page is loaded. A reload then keeps what the page shows by then.
export function arrive() {
  link = linked(location.search);
  tab = link?.tab ?? null;
  if (link) history.replaceState(history.state, "", addressOf(location.href));
  return link;
}

// The id that the address names; null for another kind.
export const named = (kind) => (link?.kind === kind && link.valid ? link.id : null);

// The tab to begin with, once; null without a link.
export function takeTab() {
  const first = tab;
  tab = null;
  return first;
}

// What the address names has been looked for.
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

// On http pages there is no clipboard.
function copyOld(text) {
  const field = create("textarea", { value: text });
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

function tell(text, kind) {
  document.querySelector(".rp-link-notice")?.remove();
  const line = create("p", { class: `rp-link-notice rp-notice rp-${kind}`, role: kind === "bad" ? "alert" : "status", text });
  document.querySelector("#rp-tabs").before(line);
  const away = (event) => {
    if (line.isConnected && event.isTrusted) line.remove();
    removeEventListener("pointerdown", away, true);
  };
  addEventListener("pointerdown", away, true);
}
