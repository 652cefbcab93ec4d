// The system's controls of playback: the lock screen of a phone, the keys of headsets and keyboards. Safari has them for Web
// Audio in a session for playback (sound/audio_session.js); other browsers have them for media elements only.

import { factsOf } from "./details.js";
import { voiceOf } from "../library/portraits.js";

const STEP = 10; // seconds, unless the system names its own
const BEGINNING = /^.{0,100}/su; // of the text

export class MediaSessionControls {
  // player: see player.js. session: navigator.mediaSession; Metadata: the browser's MediaMetadata.
  constructor(player, session = navigator.mediaSession, Metadata = globalThis.MediaMetadata) {
    Object.assign(this, { player, session, Metadata, described: null, placed: null });
  }

  get actions() {
    const { playback } = this.player;
    const move = (seconds) => playback.seek(playback.seconds + seconds);
    return {
      play: () => playback.play(),
      pause: () => playback.pause(),
      stop: () => this.player.stopAll(),
      seekto: ({ seekTime }) => playback.seek(seekTime),
      seekbackward: ({ seekOffset }) => move(-(seekOffset || STEP)),
      seekforward: ({ seekOffset }) => move(seekOffset || STEP),
    };
  }

  // Called when another sound is loaded, or what is known of it has changed. sound: null for none.
  describe(sound) {
    const { text = "", voice } = factsOf(sound);
    const artist = voiceOf(voice)?.name ?? "";
    const title = text.trim().match(BEGINNING)[0] || artist;
    const described = sound && `${artist}: ${title}`;
    if (!this.session || described === this.described) return;
    this.described = described;
    this.session.metadata = sound && new this.Metadata({ title, artist, album: "Reprise" });
    this.handle(sound !== null); // without a sound, the browser's own controls apply, for example to clips in New voice
  }

  handle(on) {
    for (const [action, act] of Object.entries(this.actions)) {
      try {
        this.session.setActionHandler(action, on ? act : null);
      } catch {
        // the browser does not know this action
      }
    }
  }

  // Called when the position, in seconds, or the state has changed. The system moves the position on by itself, so it is told
  // at most once a second.
  place(position) {
    if (!this.session) return;
    const { sound, wanted, speed } = this.player.playback;
    const playbackState = !sound ? "none" : wanted ? "playing" : "paused";
    const duration = Math.max(sound?.span ?? 0, position);
    const placed = [playbackState, speed, Math.round(duration), Math.floor(position)].join(" ");
    if (placed === this.placed) return;
    this.placed = placed;
    this.session.playbackState = playbackState;
    this.session.setPositionState?.(duration ? { duration, position, playbackRate: speed } : undefined);
  }
}
