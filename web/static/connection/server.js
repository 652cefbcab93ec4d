// The page's connection to its server. It dispatches events on the document: `reprise:gone`; `reprise:back`, whose detail
// says whether the server is a new process, and whether what the user did is `missed`: its answer was lost; `reprise:missed` if
// that is noticed later; `reprise:refused` if the server refused what the user did; `reprise:unsent`, with the event's data, if
// it has not taken an event of the queue, or its answer was lost; and `reprise:useless` if the server refuses the page, which
// does not reload itself because it has unsaved data or has just done so.

import { LatestAnswers } from "./answers/latest_answers.js";
import { hasUnsaved } from "./leaving.js";
import { ServerWatch } from "./server_watch.js";
import { Transport } from "./transport/transport.js";

const TIMEOUT = 5_000; // ms for an answer
const RELOADED = 30_000; // ms after a reload in which another one is of no use

const { dependencies = [], components = [] } = window.gradio_config ?? {};
export const answers = new LatestAnswers(dependencies);
export const server = new ServerWatch({
  ask,
  gone,
  back,
  hidden: () => document.hidden,
  later: (...timer) => setTimeout(...timer),
  forget: (timer) => clearTimeout(timer),
});
const browsers = window.fetch.bind(window);
const version = document.querySelector("meta[name=reprise-page]").content; // web/ui/page_version.py
const isActive = () => navigator.userActivation?.isActive !== false; // whether the user has just done something
const transport = new Transport({
  fetch: browsers,
  answers,
  version,
  lost: () => server.lost(),
  useless,
  refused: () => announce("refused"),
  missed: () => (server.away ? (isMissed = true) : announce("missed")),
  unsent: (data) => announce("unsent", data),
  isActive,
  present: () => server.present(),
});
let isMissed = false; // whether something that the user did has had no answer since the server is gone

async function ask() {
  const response = await browsers("./reprise/alive", { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) });
  if (!response.ok) throw new Error(`${response.status}`);
  return response.json();
}

function gone() {
  transport.watched(true);
  announce("gone");
}

function back(now, before) {
  transport.watched(false);
  if (now.page === version && now.admitted) announce("back", { anew: now.process !== before.process, missed: isMissed });
  else useless();
  isMissed = false;
}

// Called when the page is of another version, or its user has to log in again.
function useless() {
  if (!hasUnsaved() && !justReloaded()) location.reload();
  else announce("useless");
}

// A proxy may keep an old page, or have servers of several versions: the page would reload itself for ever.
function justReloaded() {
  return performance.getEntriesByType("navigation")[0]?.type === "reload" && performance.now() < RELOADED;
}

function announce(event, detail) {
  document.dispatchEvent(new CustomEvent(`reprise:${event}`, { detail }));
}

// Why an event of the queue has just failed, as the key of a sentence.
export const failure = () => (server.away ? "player.lost" : transport.failure);

// Answers to all requests of the browser, without those from its cache.
function noticeAnswers(list) {
  if (list.getEntries().some(({ transferSize }) => transferSize > 0)) server.heard();
}

// Replaces the browser's `fetch`. Called before Gradio's client is loaded.
export function connect() {
  window.fetch = (...request) => transport.send(...request);
  answers.noteEntries(components);
  document.addEventListener("visibilitychange", () => !document.hidden && server.look());
  addEventListener("online", () => server.look());
  new PerformanceObserver(noticeAnswers).observe({ type: "resource" });
  server.look();
}
