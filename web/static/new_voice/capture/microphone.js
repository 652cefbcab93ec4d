// The unprocessed microphone: the browser's echo cancelling, noise suppression and gain control would change a voice.

import { sessionForRecording } from "../../sound/audio_session.js";
import { words } from "../../ui/words.js";

const DRAIN_MS = 500; // limit for a sound system that hangs
const MUTED_MS = 1_000; // a phone may mute the microphone for a moment
export const EXACT = {
  echoCancellation: false,
  noiseSuppression: false,
  autoGainControl: false,
  channelCount: 1,
  sampleRate: { ideal: 48_000 },
};

// Why there is no microphone, and what to do about it; "" if there is one.
export function obstacle({ navigator, isSecureContext, location }) {
  if (navigator.mediaDevices?.getUserMedia) return "";
  if (isSecureContext) return words("clip.no_microphone");
  return words("clip.plain_http", { address: `http://localhost${location.port ? ":" + location.port : ""}` });
}

const REFUSALS = {
  NotAllowedError: "clip.not_allowed",
  NotFoundError: "clip.not_found",
  NotReadableError: "clip.in_use",
  OverconstrainedError: "clip.not_exact",
};

export const refusal = (error) => words(REFUSALS[error.name] ?? "clip.failed");

async function captured() {
  sessionForRecording(true);
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: EXACT });
  } catch (error) {
    sessionForRecording(false);
    throw error;
  }
}

// At the device's own rate nothing is resampled. Where the rate is unknown or refused, as that of some headsets, the browser resamples.
function contextFor(track) {
  const { sampleRate } = track.getSettings();
  try {
    return new AudioContext(sampleRate ? { sampleRate } : {});
  } catch {
    return new AudioContext();
  }
}

export class Microphone {
  // hear(Float32Array): new samples. gone(): it was unplugged, switched off, or taken by the system, for example for a call. Rejects as getUserMedia does.
  static async open(hear, gone) {
    const stream = await captured();
    const microphone = new Microphone(stream);
    try {
      await microphone.listen(hear, gone);
    } catch (error) {
      await microphone.close();
      throw error;
    }
    return microphone;
  }

  constructor(stream) {
    this.stream = stream;
    this.track = stream.getAudioTracks()[0];
  }

  get rate() {
    return this.context.sampleRate;
  }

  async listen(hear, gone) {
    this.context = contextFor(this.track);
    await this.context.audioWorklet.addModule(new URL("./capture_worklet.js", import.meta.url));
    await this.context.resume();
    this.tap = new AudioWorkletNode(this.context, "capture", { numberOfOutputs: 0 });
    this.drained = new Promise((resolve) => {
      this.tap.port.onmessage = ({ data }) => (data ? hear(data) : resolve());
    });
    this.track.onended = gone;
    this.track.onmute = () => setTimeout(() => this.track.onmute && this.track.muted && gone(), MUTED_MS);
    this.source = this.context.createMediaStreamSource(this.stream);
    this.source.connect(this.tap);
  }

  // When it resolves, all samples until now have been handed to hear().
  async close() {
    this.track.onended = this.track.onmute = null;
    if (this.tap) {
      this.tap.port.postMessage("stop");
      await Promise.race([this.drained, new Promise((resolve) => setTimeout(resolve, DRAIN_MS))]);
    }
    this.track.stop();
    await this.context?.close();
    sessionForRecording(false);
  }
}
