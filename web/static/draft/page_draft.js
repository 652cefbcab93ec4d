// This page's draft, in the browser's storages. Components are named by their element ids.

import { isOwnerKey, ownerKey } from "../connection/owner.js";
import { UNCHANGED } from "../connection/answers/latest_answers.js";
import { named, takeTab } from "./deep_links.js";
import { Draft } from "./draft.js";
import { channelToOthers } from "./other_pages.js";
import { TabHistory } from "./tab_history.js";
import { showTab } from "../ui/tabs.js";

const FIRST_TAB = "speak";
const session = () => sessionStorage;
const local = () => localStorage;

export const draft = new Draft(session, local);
const tabHistory = new TabHistory(history, showTab);
const touched = new Set(); // components that the user has changed on this page; they are not filled in
const others = channelToOthers("reprise.forget");
if (others) others.onmessage = forget;

for (const event of ["input", "click"]) {
  const note = ({ target, isTrusted }) => isTrusted && touched.add(target.closest('[id^="rp-"]')?.id);
  addEventListener(event, note, { capture: true });
}
addEventListener("popstate", ({ state }) => tabHistory.popped(state));

// Sent to the server when the page opens: the owner's key and the picked voice.
export function opening() {
  try {
    return [localStorage.getItem(ownerKey()), named("voice") ?? draft.voice];
  } catch {
    return [null, null];
  }
}

// Returns the values for these components, and for the tabs.
export function fillIn(ids) {
  const moved = [...touched].some((id) => /^rp-tab-\w+-button$/.test(id));
  const values = draft.restore([...ids, "tab"], (name) => (name === "tab" ? moved : touched.has(name)));
  const kept = values.pop();
  const linked = takeTab();
  const tab = moved ? kept : (linked ?? kept);
  tabHistory.begin(typeof tab === "string" ? tab : (draft.values.tab ?? FIRST_TAB));
  return [...values, typeof tab === "string" ? { __type__: "update", selected: tab } : tab];
}

export function keepTab(tab) {
  draft.keep({ tab });
  tabHistory.selected(tab);
  document.dispatchEvent(new CustomEvent("reprise:tab", { detail: tab }));
}

// Returns the update that opens an accordion if its settings differ from their defaults.
export function openIfChanged(values, defaults) {
  return values.some((value, i) => value !== defaults[i]) ? { __type__: "update", open: true } : UNCHANGED;
}

export function keepDraft(ids, values) {
  draft.keep(Object.fromEntries(ids.map((id, i) => [id, values[i]])));
}

// Called when all of the owner's data was deleted: clears what this browser and all of its pages keep. Each page dispatches
// `reprise:forgotten` on its document.
export function forgetEverything() {
  clear(local);
  forget();
  others?.postMessage("");
}

function forget() {
  clear(session);
  document.dispatchEvent(new CustomEvent("reprise:forgotten"));
}

function clear(storage) {
  try {
    const ours = Object.keys(storage()).filter((key) => key.startsWith("reprise.") && !isOwnerKey(key)); // the owner stays
    ours.forEach((key) => storage().removeItem(key));
  } catch {
    // the browser refuses storage
  }
}
