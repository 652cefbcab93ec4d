// Records a clip as the microphone gives it (the browser's echo cancelling, noise suppression and gain control change a
// voice), or takes a file. The value is null or { path, name } of the uploaded clip.
// Given by the page: element, trigger, props, upload, watch.

const LIMIT_SECONDS = 30; // all that is used of a clip
const INVITATION = "Ten to thirty seconds of one voice, in a quiet room.";
const EXACT = { echoCancellation: false, noiseSuppression: false, autoGainControl: false, channelCount: 1 };
const find = (selector) => element.querySelector(selector);

const TAP_SOURCE = `
registerProcessor("tap", class extends AudioWorkletProcessor {
  process([[samples]]) {
    if (samples) this.port.postMessage(samples.slice());
    return true;
  }
});`;

function say(text, state) {
  find(".rp-say").textContent = text;
  if (state) find(".rp-clip").dataset.state = state;
}

// Why there is no microphone, and what to do about it; "" where there is one.
function obstacle() {
  if (navigator.mediaDevices?.getUserMedia) return "";
  if (isSecureContext) return "This browser offers no microphone. You can still choose a file.";
  const local = `http://localhost${location.port ? ":" + location.port : ""}`;
  return (
    "Browsers lend the microphone only to secure pages, and this one came over plain http. " +
    `Open it as ${local} on the computer that runs it, put https in front of it, or start it with --share. ` +
    "You can still choose a file."
  );
}

const REFUSALS = {
  NotAllowedError: "The browser was not allowed to use the microphone. Allow it beside the address bar, then record again.",
  NotFoundError: "No microphone was found. Plug one in, or choose a file.",
  NotReadableError: "The microphone is in use by another program. Close that program, then record again.",
};

// 32-bit float WAV: exactly the samples that were heard.
function floatWav(blocks, rate) {
  const length = blocks.reduce((sum, block) => sum + block.length, 0);
  const bytes = new ArrayBuffer(44 + length * 4);
  const view = new DataView(bytes);
  const text = (at, word) => [...word].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + length * 4, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 3, true); // IEEE float
  view.setUint16(22, 1, true); // mono
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * 4, true);
  view.setUint16(32, 4, true);
  view.setUint16(34, 32, true);
  text(36, "data");
  view.setUint32(40, length * 4, true);
  const samples = new Float32Array(bytes, 44);
  let at = 0;
  for (const block of blocks) {
    samples.set(block, at);
    at += block.length;
  }
  return new File([bytes], "recording.wav", { type: "audio/wav" });
}

class Recorder {
  constructor() {
    this.taking = null; // { context, stream, blocks, length, peak }
    find(".rp-record").onclick = () => (this.taking ? this.stop() : this.start());
    find(".rp-choose").onclick = () => find(".rp-file").click();
    find(".rp-clear").onclick = () => this.clear();
    find(".rp-file").onchange = ({ target }) => target.files[0] && this.take(target.files[0]);
    this.acceptDrops(find(".rp-clip"));
    watch("value", () => props.value || this.clear());
    const trouble = obstacle();
    find(".rp-record").disabled = Boolean(trouble);
    if (trouble) say(trouble, "refused");
  }

  acceptDrops(area) {
    const over = (on) => (event) => {
      event.preventDefault();
      area.classList.toggle("rp-over", on);
    };
    area.ondragover = over(true);
    area.ondragleave = over(false);
    area.ondrop = (event) => {
      over(false)(event);
      if (event.dataTransfer.files[0]) this.take(event.dataTransfer.files[0]);
    };
  }

  async start() {
    this.clear();
    say("Waiting for the microphone …", "asking");
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: EXACT });
      const context = new AudioContext();
      const source = URL.createObjectURL(new Blob([TAP_SOURCE], { type: "text/javascript" }));
      await context.audioWorklet.addModule(source);
      URL.revokeObjectURL(source);
      const tap = new AudioWorkletNode(context, "tap", { numberOfOutputs: 0 });
      this.taking = { context, stream, blocks: [], length: 0, peak: 0, shown: 0 };
      tap.port.onmessage = ({ data }) => this.hear(data);
      context.createMediaStreamSource(stream).connect(tap);
      find(".rp-record-label").textContent = "Stop";
      say("Recording 0.0 s", "recording");
    } catch (error) {
      say(REFUSALS[error.name] ?? `The microphone could not be used (${error.message}).`, "refused");
    }
  }

  hear(block) {
    const taking = this.taking;
    if (!taking) return;
    taking.blocks.push(block);
    taking.length += block.length;
    for (const sample of block) taking.peak = Math.max(taking.peak, Math.abs(sample));
    const { sampleRate } = taking.context;
    if (taking.length - taking.shown >= sampleRate / 20) {
      taking.shown = taking.length;
      this.showLevel(taking.peak, taking.length / sampleRate);
      taking.peak = 0;
    }
    if (taking.length >= LIMIT_SECONDS * sampleRate) this.stop();
  }

  showLevel(peak, time) {
    const level = Math.max(-60, Math.min(0, 20 * Math.log10(peak + 1e-6)));
    find(".rp-level").style.width = `${((level + 60) / 60) * 100}%`;
    find(".rp-level").dataset.loud = peak >= 0.98;
    find(".rp-meter").setAttribute("aria-valuenow", level.toFixed(0));
    const advice = peak >= 0.98 ? " · too loud, move back a little" : time < 10 ? " · ten seconds or more is best" : "";
    say(`Recording ${time.toFixed(1)} s${advice}`);
  }

  async stop() {
    const { context, stream, blocks, length } = this.taking;
    this.taking = null;
    find(".rp-record-label").textContent = "Record again";
    for (const track of stream.getTracks()) track.stop();
    await context.close();
    if (length) await this.take(floatWav(blocks, context.sampleRate), length / context.sampleRate);
    else say("The microphone gave no sound. Check that it is the right one, then record again.", "refused");
  }

  async take(file, duration) {
    const name = file.name;
    if (file.size > props.max_mb * 2 ** 20) {
      say(`${name} is larger than ${props.max_mb} MB. A minute of sound is plenty.`, "refused");
      return;
    }
    say("Uploading …", "uploading");
    try {
      const { path } = await upload(file);
      this.preview(file);
      props.value = { path, name };
      say(duration ? `Recorded ${duration.toFixed(1)} s.` : `${name} is ready.`, "ready");
      trigger("change");
    } catch (error) {
      say(`The clip could not be uploaded (${error.message}). Try again.`, "refused");
    }
    find(".rp-file").value = "";
  }

  preview(file) {
    const audio = find("audio");
    if (audio.src) URL.revokeObjectURL(audio.src);
    audio.src = URL.createObjectURL(file);
    find(".rp-preview").hidden = false;
  }

  clear() {
    const audio = find("audio");
    audio.pause();
    if (audio.src) URL.revokeObjectURL(audio.src);
    audio.removeAttribute("src");
    find(".rp-preview").hidden = true;
    find(".rp-record-label").textContent = "Record";
    find(".rp-level").style.width = 0;
    if (props.value) props.value = null;
    say(obstacle() || INVITATION, obstacle() ? "refused" : "empty");
  }
}

new Recorder();
