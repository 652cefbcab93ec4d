// What a page does when it is left. Browsers drop the requests of such a page, except those that say that they outlive it, and
// no answer can be waited for.

const acts = [];
let leaving = false;

// Whether the page is being left: what is asked of the server now must not wait for an answer first.
export const isLeaving = () => leaving;

// act: called when the page is left. The requests that it sends outlive the page; they must be sent before it returns.
export function whenLeaving(act) {
  acts.push(act);
}

globalThis.addEventListener?.("pagehide", leave);

function leave() {
  const usual = window.fetch;
  window.fetch = (asked, options) => usual(asked, { ...options, keepalive: true });
  leaving = true;
  setTimeout(() => {
    window.fetch = usual; // of a page that comes back
    leaving = false;
  });
  for (const act of acts) act();
}
