// How a phone treats the page's sound. Safari's own choice for Web Audio is that of a game: the ring/silent switch mutes it.
// Speech is played like music instead. Other browsers have no such sessions.

let recording = false;

function choose() {
  if (navigator.audioSession) navigator.audioSession.type = recording ? "play-and-record" : "playback";
}

// Called before sound is played.
export const sessionForPlayback = choose;

// Called before the microphone is opened, which Safari refuses in a session for playback, and after it was closed.
export function sessionForRecording(on) {
  recording = on;
  choose();
}
