// Actions when the page unloads. Browsers cancel its requests unless they use keepalive, and no answer can be awaited.
// Before that, the browser asks whether to leave a page with unsaved data.

const acts = [];
const guards = [];
let leaving = false;

// Whether the page is unloading. Requests sent now must not wait for an answer first.
export const isLeaving = () => leaving;

// act: called when the page unloads. Its requests use keepalive; they must be sent before it returns.
export function whenLeaving(act) {
  acts.push(act);
}

// unsaved(): whether the page has data that would be lost.
export function guardLeaving(unsaved) {
  guards.push(unsaved);
}

export const hasUnsaved = () => guards.some((unsaved) => unsaved());

// Called when the user has agreed to lose the data, so that the browser does not ask again.
export const dropGuards = () => guards.splice(0);

globalThis.addEventListener?.("pagehide", leave);
globalThis.addEventListener?.("pageshow", showAgain);
globalThis.addEventListener?.("beforeunload", ask);

// Gradio's listener would end its stream, and the events under way would never end. But the user may stay, or come back to
// the page as it was, which Safari keeps in memory. The requests of a page that is left end by themselves.
function ask(event) {
  event.stopImmediatePropagation();
  if (hasUnsaved()) event.preventDefault();
}

// Safari empties the fields without autocompletion of a page that it shows from its memory. Gradio's dropdowns are among
// them, and do not notice.
let fields = []; // with their values when the page was left

function showAgain({ persisted }) {
  if (!persisted) return;
  setTimeout(() => fields.forEach(([field, value]) => (field.value = value))); // Safari empties them after this event
}

function leave() {
  fields = [...document.querySelectorAll("input[autocomplete=off]")].map((field) => [field, field.value]);
  const usual = window.fetch;
  window.fetch = (asked, options) => usual(asked, { ...options, keepalive: true });
  leaving = true;
  setTimeout(() => {
    window.fetch = usual; // the page may be restored
    leaving = false;
  });
  for (const act of acts) act();
}
