// Keeps the key that this browser is known by, and sends it with every event as this component's value. A Space shows
// the page in a frame, where cookies are restricted; this storage is not, or only kept apart from other sites.
// Given by the page: element, props, watch, words.

const KEY = "reprise.owner";

function read() {
  try {
    return { kept: localStorage.getItem(KEY), storage: true };
  } catch {
    return { kept: null, storage: false }; // the key then lives as long as the page
  }
}

function keep(token) {
  try {
    localStorage.setItem(KEY, token);
  } catch {
    const notice = element.querySelector(".rp-notice");
    notice.textContent = words("owner.forgotten");
    notice.hidden = false;
  }
}

let known = read().kept; // what the page told the server when it opened
if (known) props.value = known;

watch("value", () => {
  const token = props.value;
  if (!token || token === known) return;
  const { kept } = read();
  if (kept && kept !== known) props.value = kept; // another page of this browser was given one at the same time
  else keep(token);
  known = props.value;
});

// Another page of this browser was given a new key: it is this page's as well.
addEventListener("storage", ({ key, newValue }) => {
  if (key === KEY && newValue) props.value = known = newValue;
});
