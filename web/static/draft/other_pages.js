// Channels to this browser's other pages.

// A BroadcastChannel; null if the browser refuses it, as Firefox does where it blocks cookies.
export function channelToOthers(name) {
  try {
    return new BroadcastChannel(name);
  } catch {
    return null;
  }
}
