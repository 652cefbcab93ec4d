// This page's draft, in the browser's storages. Components are named by their ids in the page.

import { KEY as OWNER } from "../ui/owner.js"; // stays: it is the key to what comes next
import { named, takeTab } from "./deep_links.js";
import { Draft } from "./draft.js";

const session = () => sessionStorage;
const local = () => localStorage;

export const draft = new Draft(session, local);
const touched = new Set(); // what the user has changed on this page, which is not filled in
const others = "BroadcastChannel" in window ? new BroadcastChannel("reprise.forget") : null;
if (others) others.onmessage = () => clear(session);

for (const event of ["input", "click"]) {
  const note = ({ target, isTrusted }) => isTrusted && touched.add(target.closest('[id^="rp-"]')?.id);
  addEventListener(event, note, { capture: true });
}

// What the server is told when the page opens: the owner's key, and the voice that was picked.
export function opening() {
  try {
    return [localStorage.getItem(OWNER), named("voice") ?? draft.voice];
  } catch {
    return [null, null];
  }
}

// Values for these components, and for the tabs.
export function fillIn(ids) {
  const moved = [...touched].some((id) => /^rp-tab-\w+-button$/.test(id));
  const values = draft.restore([...ids, "tab"], (name) => (name === "tab" ? moved : touched.has(name)));
  const kept = values.pop();
  const linked = takeTab();
  const tab = moved ? kept : (linked ?? kept);
  return [...values, typeof tab === "string" ? { __type__: "update", selected: tab } : tab];
}

export function keepDraft(ids, values) {
  draft.keep(Object.fromEntries(ids.map((id, i) => [id, values[i]])));
}

// Everything of the owner was deleted: this browser keeps nothing of it either.
export function forgetEverything() {
  for (const storage of [session, local]) clear(storage);
  others?.postMessage("");
}

function clear(storage) {
  try {
    const ours = Object.keys(storage()).filter((key) => key.startsWith("reprise.") && key !== OWNER);
    ours.forEach((key) => storage().removeItem(key));
  } catch {
    // it was never allowed to keep anything
  }
}
