// The page's player. The event that speaks sends messages through `props.value`: "start", "chunk"s of 16-bit samples,
// and "end" with the finished WAV; see web/speaking.py. Given by the page: element, trigger, props, watch.

const BARS_PER_SECOND = 20;
const find = (selector) => element.querySelector(selector);
const seconds = () => performance.now() / 1000;
const clock = (time) => `${Math.floor(time / 60)}:${String(Math.floor(time % 60)).padStart(2, "0")}`;

function decodePcm(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Int16Array(bytes.buffer);
}

class Player {
  constructor() {
    this.sound = null; // { context, volume, output }, opened at the first gesture
    this.pace = Infinity; // of the last take: a slow engine is known before the next one starts
    this.reset();
    find(".rp-play").onclick = () => this.toggle();
    find(".rp-volume input").oninput = ({ target }) => this.setVolume(Number(target.value));
    find(".rp-volume input").value = localStorage.getItem("reprise.volume") ?? 1;
    const wave = find(".rp-wave");
    wave.onclick = (event) => this.seekTo((event.offsetX / wave.clientWidth) * this.span());
    wave.onkeydown = (event) => this.steer(event);
    new ResizeObserver(() => this.draw()).observe(wave);
    watch("value", () => this.receive(props.value));
  }

  reset(ticket = null) {
    this.ticket = ticket;
    this.running = false; // the engine has begun
    this.rate = props.rate;
    this.expected = 0;
    this.length = 0;
    this.peaks = [];
    this.at = { position: 0, wanted: true, waiting: true, ended: false };
    this.nextMessage = 0;
    this.status = "";
    this.wav = null;
    this.refilled = false;
    this.stats = {
      ticket, received: 0, chunks: 0, played: 0, underruns: 0, lost: 0, finished: false, stopReason: null,
      clickedAt: performance.now(), firstChunkAt: null, firstSoundAt: null, playedAtFinish: null, output: null,
    };
  }

  // Called in the click on Speak: browsers let sound start only from a gesture. Returns the ticket of the new take.
  begin() {
    const ticket = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
    this.sound?.output.call("pause");
    this.reset(ticket);
    this.open();
    this.status = "Waiting for the engine …";
    this.show("waiting");
    return ticket;
  }

  // Called in the click on Stop: silence at once; what was spoken stays. A take still in the queue is abandoned.
  stop() {
    if (!this.ticket || this.stats.finished) return;
    this.sound?.output.call("pause");
    if (this.running) {
      trigger("halt", { ticket: this.ticket });
    } else {
      trigger("abandon");
      this.reset();
      this.status = "Stopped before it began.";
      this.show("empty");
    }
  }

  // The event failed before it began: the queue was full.
  refused() {
    if (!this.ticket || this.stats.finished) return;
    this.reset();
    this.status = "Too many people are waiting already. Try again in a moment.";
    this.show("problem");
  }

  open() {
    this.opening ??= openOutput(this.rate, (at) => this.report(at)).then((sound) => {
      this.sound = sound;
      this.setVolume(Number(find(".rp-volume input").value));
      return sound;
    });
    this.opening.then(({ context }) => context.resume());
    return this.opening;
  }

  async receive(message) {
    if (!message?.ticket || message.ticket !== this.ticket) return;
    if (message.number < this.nextMessage) return; // Gradio sends the last one again when the event is done
    this.nextMessage = message.number + 1;
    this.status = message.status;
    if (message.kind === "start") this.start(message);
    else if (message.kind === "chunk") this.addChunk(message);
    else this.finish(message);
  }

  start({ rate, expected }) {
    this.running = true;
    this.rate = rate;
    this.expected = expected;
    this.call("load", this.ticket, rate, { expected, pace: this.pace });
    this.show("waiting");
  }

  addChunk({ start, pcm }) {
    const samples = decodePcm(pcm);
    this.stats.firstChunkAt ??= performance.now();
    this.stats.chunks += 1;
    this.stats.received += samples.length;
    this.length = start + samples.length;
    this.addPeaks(start, samples);
    this.call("write", start, samples, seconds());
    this.show("speaking");
  }

  finish({ wav, stop_reason: reason, total, problem }) {
    this.call("finish");
    this.wav = wav;
    Object.assign(this.stats, { finished: true, stopReason: reason, playedAtFinish: this.stats.played });
    if (wav && this.length !== total) this.refill();
    this.show(problem ? "problem" : "finished");
  }

  // The WAV is whole even where a message was lost on its way.
  async refill() {
    this.refilled = true;
    const bytes = await (await fetch(this.wav.url)).arrayBuffer();
    const samples = new Int16Array(bytes.slice(44));
    this.length = samples.length;
    this.peaks = [];
    this.addPeaks(0, samples);
    this.call("load", this.ticket, this.rate, {});
    this.call("pause");
    this.call("write", 0, samples, seconds());
    this.call("finish");
    this.draw();
  }

  call(...message) {
    this.open().then(({ output }) => output.call(...message));
  }

  report(at) {
    if (at.ticket !== this.ticket) return; // the last words of the take before
    this.at = at;
    Object.assign(this.stats, { played: at.played, underruns: at.underruns, lost: at.lost, output: this.sound?.output.kind });
    if (at.pace > 0 && Number.isFinite(at.pace)) this.pace = at.pace;
    if (at.startedAt !== null && this.stats.firstSoundAt === null) {
      const since = this.sound.context.currentTime - at.startedAt;
      this.stats.firstSoundAt = performance.now() - since * 1000;
      this.show();
    }
    this.refresh();
  }

  toggle() {
    this.call(this.at.wanted && !this.at.ended ? "pause" : "play");
  }

  seekTo(time) {
    if (this.length) this.call("seek", Math.min(time * this.rate, this.length));
  }

  steer(event) {
    const step = { ArrowLeft: -2, ArrowRight: 2, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const end = this.length / this.rate;
    this.seekTo(Math.max(0, Math.min(end, this.at.position / this.rate + step)));
  }

  setVolume(volume) {
    localStorage.setItem("reprise.volume", volume);
    if (this.sound) this.sound.volume.gain.value = volume ** 2; // loudness is heard in powers
  }

  span() {
    return Math.max(this.length / this.rate, this.stats.finished ? 0 : this.expected);
  }

  addPeaks(start, samples) {
    const size = Math.floor(this.rate / BARS_PER_SECOND);
    this.peaks.length = Math.min(this.peaks.length, Math.ceil(start / size));
    for (let i = 0; i < samples.length; i++) {
      const bar = Math.floor((start + i) / size);
      const value = Math.abs(samples[i]) / 32768;
      if (!(this.peaks[bar] >= value)) this.peaks[bar] = value;
    }
  }

  show(state) {
    const section = find(".rp-player");
    if (state) section.dataset.state = state;
    document.documentElement.toggleAttribute("data-rp-busy", this.ticket !== null && !this.stats.finished);
    const { clickedAt, firstSoundAt } = this.stats;
    const heard = firstSoundAt === null ? "" : ` Heard ${((firstSoundAt - clickedAt) / 1000).toFixed(2)} s after the click.`;
    find(".rp-status").textContent = this.status + (this.stats.finished ? heard : "");
    const link = find(".rp-download");
    link.hidden = !this.wav;
    if (this.wav) Object.assign(link, { href: this.wav.url, download: this.wav.orig_name });
    find(".rp-play").disabled = !this.length;
    this.refresh();
  }

  refresh() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const position = this.at.position / this.rate;
    const sounding = this.at.wanted && !this.at.ended && this.length > 0;
    find(".rp-play").setAttribute("aria-label", sounding ? "Pause" : "Play");
    find(".rp-player").dataset.sounding = sounding;
    find(".rp-time").textContent = `${clock(position)} / ${clock(this.length / this.rate)}`;
    const wave = find(".rp-wave");
    wave.setAttribute("aria-valuemax", (this.length / this.rate).toFixed(1));
    wave.setAttribute("aria-valuenow", position.toFixed(1));
    wave.setAttribute("aria-valuetext", `${clock(position)} of ${clock(this.length / this.rate)}`);
    this.paint(wave, find("canvas"), position);
  }

  paint(wave, canvas, position) {
    const scale = devicePixelRatio || 1;
    const [width, height] = [wave.clientWidth, wave.clientHeight];
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const colours = getComputedStyle(wave);
    const bars = Math.max(1, Math.floor(width / 4));
    const perBar = Math.max(this.span() * BARS_PER_SECOND, 1) / bars;
    const heard = position * BARS_PER_SECOND / perBar;
    for (let bar = 0; bar < bars; bar++) {
      const part = this.peaks.slice(Math.floor(bar * perBar), Math.max(Math.floor((bar + 1) * perBar), Math.floor(bar * perBar) + 1));
      const peak = part.length ? Math.max(...part) : 0;
      const size = Math.max(2, Math.sqrt(peak) * (height - 6));
      pen.fillStyle = colours.getPropertyValue(!part.length ? "--rp-rest" : bar < heard ? "--rp-heard" : "--rp-here");
      pen.beginPath();
      pen.roundRect(bar * 4, (height - size) / 2, 2.5, size, 1.25);
      pen.fill();
    }
  }
}

const player = new Player();
window.reprisePlayer = {
  begin: () => player.begin(),
  stop: () => player.stop(),
  refused: () => player.refused(),
  get stats() {
    return { ...player.stats, length: player.length, position: player.at.position, status: player.status, refilled: player.refilled };
  },
};
player.draw();
