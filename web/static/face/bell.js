// Tells the tabs of this page, and this browser's other pages, what was changed. Its value: { what, once }; its events
// are named after what: "voices", "history", "scripts". Whoever comes back to a page is shown what is there now.
// Given by the page: element, props, trigger, watch.

const ALL = ["voices", "history", "scripts"];
const REST = 2000; // ms: focus comes and goes quickly while people click around

const others = "BroadcastChannel" in window ? new BroadcastChannel("reprise.bell") : null;
const stale = new Set();
let shown = performance.now();

function tell(what) {
  for (const name of what) {
    stale.delete(name);
    trigger(name);
  }
}

function comeBack() {
  if (document.hidden) return;
  const now = performance.now();
  const what = now - shown > REST ? ALL : [...stale];
  shown = now;
  tell(what);
}

watch("value", () => {
  const what = props.value?.what?.split(" ") ?? [];
  others?.postMessage(what);
  tell(what);
});

if (others) {
  others.onmessage = ({ data }) => {
    data.filter((name) => ALL.includes(name)).forEach((name) => stale.add(name));
    if (document.hasFocus()) comeBack();
  };
}
addEventListener("focus", comeBack);
document.addEventListener("visibilitychange", comeBack);
