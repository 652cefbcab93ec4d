// Shows what the server is doing, and asks again every few seconds while somebody looks.
// Given by the page: element, props, trigger, watch. Needs words.js, rows.js.

const PERIOD = 2000; // ms
const rows = element.querySelector(".rp-status-rows");
const loading = element.querySelector(".rp-status-loading");
const licence = element.querySelector(".rp-status-licence");
let seen = false;
let asked = 0; // when, until it is answered

function look() {
  const now = Date.now();
  if (!seen || document.hidden || now - asked < 5 * PERIOD) return; // a slow server is not asked twice at once
  asked = now;
  trigger("look", {});
}

// Only what changed is written, so that nobody who reads it is interrupted.
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function show(state) {
  const pairs = rowsOf(state, document.documentElement.lang || "en");
  while (rows.children.length > pairs.length) rows.lastChild.remove();
  pairs.forEach(([name, value], place) => {
    const row = rows.children[place] ?? rows.appendChild(document.createElement("div"));
    if (!row.children.length) row.append(document.createElement("dt"), document.createElement("dd"));
    write(row.children[0], name);
    write(row.children[1], value);
  });
  write(licence, state.notice);
  write(loading, state.loading ? loadingOf(state.loading) : "");
  loading.hidden = !state.loading;
}

function arrive() {
  asked = 0;
  if (props.value) show(props.value);
}

watch("value", arrive);
arrive(); // what was sent before this script ran
new IntersectionObserver((entries) => {
  seen = entries.at(-1).isIntersecting;
  look();
}).observe(element);
document.addEventListener("visibilitychange", look);
setInterval(look, PERIOD);
