// What the recorder shows, and what hands do to it. Needs meter.js, clips.js, format.js, words.js.

class RecorderView {
  constructor(element, recorder) {
    this.recorder = recorder;
    this.find = (selector) => element.querySelector(selector);
    this.frame = null;
    this.find(".rp-record").onclick = () => recorder.press();
    this.find(".rp-choose").onclick = () => this.find(".rp-file").click();
    this.find(".rp-file").onchange = ({ target }) => {
      recorder.takeAll([...target.files]);
      target.value = ""; // the same file may be chosen again
    };
    this.find(".rp-script-other").onclick = () => recorder.nextScript();
    this.acceptDrops(this.find(".rp-clip"));
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
      this.recorder.takeAll([...event.dataTransfer.files]);
    };
  }

  // The words to read; "" while they are put away.
  get script() {
    const script = this.find(".rp-script");
    return script.open && !script.hidden ? this.find(".rp-script-text").textContent : "";
  }

  // text: "" where there is none. others: whether there are more.
  showScript(text, others) {
    this.find(".rp-script").hidden = !text;
    this.find(".rp-script-text").textContent = text;
    this.find(".rp-script-other").hidden = !others;
  }

  say(text, state) {
    const line = this.find(".rp-say");
    line.textContent = text;
    line.setAttribute("aria-live", state === "recording" ? "off" : "polite"); // the running time is not read out
    this.find(".rp-clip").dataset.state = state;
    this.find(".rp-count").textContent = "";
    this.find(".rp-record-label").textContent = this.label(state);
    this.find(".rp-record").disabled = Boolean(this.recorder.trouble) || ["asking", "uploading"].includes(state);
    this.find(".rp-choose").disabled = ["asking", "counting", "recording", "uploading"].includes(state);
    this.find(".rp-script-other").disabled = state === "recording"; // its words belong to what is being read
  }

  label(state) {
    if (state === "recording") return words("clip.stop");
    if (state === "counting") return words("clip.cancel");
    return words(this.recorder.clips.list.length ? "clip.record_more" : "clip.record");
  }

  count(left) {
    this.say(words("clip.counting", { left }), "counting");
    this.find(".rp-count").textContent = left;
  }

  refresh() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.recorder.taking) this.showLevel(this.recorder.taking);
    });
  }

  showLevel({ meter, recording }) {
    this.find(".rp-level").style.width = `${onMeter(meter.level) * 100}%`;
    this.find(".rp-peak").style.left = `${onMeter(meter.held) * 100}%`;
    this.find(".rp-lamp").dataset.lit = meter.clipping;
    const level = meter.level.toFixed(0);
    this.find(".rp-meter").setAttribute("aria-valuenow", level);
    const said = words(meter.clipping ? "clip.level_clipping" : "clip.level_value", { level });
    this.find(".rp-meter").setAttribute("aria-valuetext", said);
    if (!recording) return;
    this.find(".rp-say").textContent = words(progress(meter, recording), { seconds: recording.seconds.toFixed(1) });
  }

  showClips() {
    const { clips } = this.recorder;
    const row = this.find(".rp-clips");
    row.hidden = !clips.list.length;
    const focused = row.querySelector(":focus")?.dataset.name;
    row.replaceChildren(...clips.list.map((clip) => this.line(clip, clip === clips.chosen)));
    if (focused) [...row.querySelectorAll("button")].find((button) => button.dataset.name === focused)?.focus();
    const { dataset } = this.find(".rp-clip");
    this.find(".rp-record-label").textContent = this.label(dataset.state);
    const together = this.find(".rp-together");
    together.textContent = togetherSaid(clips);
    together.hidden = !together.textContent;
    together.dataset.light = clips.leftOut.length ? "amber" : "";
  }

  line(clip, chosen) {
    const { recorder } = this;
    const line = document.createElement("li");
    line.className = "rp-clip-line";
    const name = button(lineOf(clip), clip.name, () => recorder.choose(clip));
    name.className = "rp-clip-name";
    name.setAttribute("aria-pressed", chosen);
    const about = (text, said, onclick) => button(words(text), words(said, { name: clip.name }), onclick);
    const listen = about("clip.listen", "clip.listen_to", () => recorder.listen(clip));
    listen.disabled = !clip.playable;
    line.append(name, listen);
    if (clip.before) line.append(about("clip.undo", "clip.undo_of", () => recorder.undo(clip)));
    if (clip.recorded) line.append(about("clip.again", "clip.again_for", () => recorder.start(clip)));
    line.append(about("clip.remove", "clip.remove_of", () => recorder.remove(clip)));
    return line;
  }
}

// The key of what is said while it records.
function progress(meter, { seconds }) {
  if (meter.clipping) return "clip.recording_loud";
  return seconds < 10 ? "clip.recording_short" : "clip.recording";
}

function lineOf({ name, trim }) {
  if (!trim) return name;
  const [length, all] = [trim.length, trim.seconds].map(tenths);
  return trim.whole ? `${name} · ${length}` : `${name} · ${words("clip.length_of", { length, all })}`;
}

// What becomes of several clips; "" for one alone.
function togetherSaid(clips) {
  if (clips.list.length < 2) return "";
  const values = { number: clips.list.length, seconds: tenths(clips.length), limit: clips.together };
  const names = clips.leftOut.map(({ name }) => `“${name}”`).join(", ");
  return names ? words("clip.left_out", { ...values, names }) : words("clip.together", values);
}

// said: what screen readers say, which names the clip that it is about.
function button(text, said, onclick) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: text, onclick });
  made.dataset.name = said;
  if (!text.startsWith(said)) made.setAttribute("aria-label", said);
  return made;
}
