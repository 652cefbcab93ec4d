// The state of the server, as pairs of a name and a value.

import { words } from "../ui/words.js";

const GRAPHS = { frame: "status.graphs_frame", fast: "status.graphs_fast" };

// A time, rounded.
function roughly(seconds) {
  if (seconds < 100) return words("status.about_seconds", { seconds: Math.max(1, Math.round(seconds)) });
  return words("status.about_minutes", { minutes: Math.round(seconds / 60) });
}

export function upFor(seconds) {
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (hours < 1) return words("status.minutes", { minutes });
  if (hours < 48) return words("status.hours", { hours, minutes: minutes % 60 });
  return words("status.days", { days: Math.floor(hours / 24), hours: hours % 24 });
}

export function waitOf({ wait }) {
  if (wait === null) return words("status.wait_unknown");
  return wait < 1 ? words("status.wait_none") : roughly(wait);
}

function paceOf({ factor }, number) {
  if (factor === null) return words("status.factor_unknown");
  return words("status.factor_is", { factor: number(factor, 2), speed: number(1 / factor, 1) });
}

// The engine gives a reason after "off".
function graphsOf({ graphs }) {
  if (graphs in GRAPHS) return words(GRAPHS[graphs]);
  return [words("status.graphs_off"), graphs.replace(/^off[:,\s]*/, "")].filter(Boolean).join(": ");
}

export function rowsOf(state, language) {
  const number = (value, digits) => new Intl.NumberFormat(language, { maximumFractionDigits: digits }).format(value);
  const megabytes = (bytes) => {
    const unit = { style: "unit", unit: "megabyte", maximumFractionDigits: bytes < 1e7 ? 1 : 0 };
    return new Intl.NumberFormat(language, unit).format(bytes / 1e6);
  };
  return [
    [words("status.model"), state.asleep ? words("status.asleep", { model: state.name }) : state.name],
    [words("status.device"), state.device],
    [words("status.precision"), state.precision],
    [words("status.graphs"), graphsOf(state)],
    [words("status.speaking"), words("status.of", { count: state.speaking, slots: state.slots })],
    [words("status.waiting"), number(state.waiting, 0)],
    state.place !== null && [words("status.place"), number(state.place, 0)],
    [words(state.place === null ? "status.wait" : "status.own_wait"), waitOf(state)],
    [words("status.factor"), paceOf(state, number)],
    [words("status.memory"), megabytes(state.memory)],
    state.device_memory !== null && [words("status.device_memory"), megabytes(state.device_memory)],
    [words("status.prepared"), megabytes(state.prepared)],
    state.idle && [words("status.idle"), words("status.idle_after", { minutes: number(state.idle / 60, 1) })],
    [words("status.uptime"), upFor(state.uptime)],
  ].filter(Boolean);
}

export function loadingOf({ name, waits, done }) {
  return waits ? words("status.loading_waits", { model: name }) : words("status.loading", { model: name, done: Math.round(done * 100) });
}
