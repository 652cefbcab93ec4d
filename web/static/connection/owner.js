// Stores the key that identifies this browser, and sends it with every event as this component's value. A Space shows the
// page in a frame, where cookies are restricted; local storage is at most partitioned by site.

import { remember, remembered } from "../ui/remember.js";
import { words } from "../ui/words.js";

const NAME = "reprise.owner";

// Returns the name of the page's key. Servers at different paths of one site share the storage, but not the keys.
export const ownerKey = (path = location.pathname) => NAME + path.replace(/\/+$/, "");

export const isOwnerKey = (name) => name.startsWith(NAME);

export function mount({ element, props, watch }) {
  const own = ownerKey();
  let known = remembered(own); // the key sent when the page opened; null if none was stored
  if (known) props.value = known;

  function keep(token) {
    if (remember(own, token)) return;
    const notice = element.querySelector(".rp-notice");
    notice.textContent = words("owner.forgotten");
    notice.hidden = false;
  }

  watch("value", () => {
    const token = props.value;
    if (!token || token === known) return;
    const kept = remembered(own);
    if (kept && kept !== known) props.value = kept; // another page of this browser received a key at the same time
    else keep(token);
    known = props.value;
  });

  // Another page of this browser received a new key: use it here, too.
  addEventListener("storage", ({ key, newValue }) => {
    if (key === own && newValue) props.value = known = newValue;
  });
}
