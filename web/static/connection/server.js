// The page's connection to its server. It dispatches events on the document: `reprise:gone`; `reprise:back`, whose detail
// says whether the server is a new process; and `reprise:reload` before the page reloads itself, which components with
// unsaved work cancel.

import { LatestAnswers } from "./latest_answers.js";
import { ServerWatch } from "./server_watch.js";
import { Transport } from "./transport.js";

const TIMEOUT = 5_000; // ms for an answer

export const answers = new LatestAnswers(window.gradio_config?.dependencies ?? []);
export const server = new ServerWatch({
  ask,
  gone: () => announce("gone"),
  back,
  hidden: () => document.hidden,
  later: (...timer) => setTimeout(...timer),
  forget: (timer) => clearTimeout(timer),
});
const browsers = window.fetch.bind(window);
const transport = new Transport({ fetch: browsers, answers, lost: () => server.lost() });

async function ask() {
  const response = await browsers("./reprise/alive", { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) });
  if (!response.ok) throw new Error(`${response.status}`);
  return response.json();
}

// A page of another version, or one whose user has to log in again, must be reloaded.
function back(now, before) {
  const useless = now.page !== before.page || !now.admitted;
  if (useless && announce("reload")) location.reload();
  else announce("back", { anew: now.process !== before.process, useless });
}

// Dispatches an event. Returns false if a listener cancelled it.
function announce(event, detail) {
  return document.dispatchEvent(new CustomEvent(`reprise:${event}`, { detail, cancelable: true }));
}

// Replaces the browser's `fetch`. Called before Gradio's client is loaded.
export function connect() {
  window.fetch = (...request) => transport.send(...request);
  document.addEventListener("visibilitychange", () => !document.hidden && server.look());
  addEventListener("online", () => server.look());
  server.look();
}
