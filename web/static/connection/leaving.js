// Actions when the page unloads. Browsers cancel its requests unless they use keepalive, and no answer can be awaited.

const acts = [];
let leaving = false;

// Whether the page is unloading. Requests sent now must not wait for an answer first.
export const isLeaving = () => leaving;

// act: called when the page unloads. Its requests use keepalive; they must be sent before it returns.
export function whenLeaving(act) {
  acts.push(act);
}

globalThis.addEventListener?.("pagehide", leave);

function leave() {
  const usual = window.fetch;
  window.fetch = (asked, options) => usual(asked, { ...options, keepalive: true });
  leaving = true;
  setTimeout(() => {
    window.fetch = usual; // the page may be restored
    leaving = false;
  });
  for (const act of acts) act();
}
