// The page's player. The event that speaks sends messages through `props.value`: "start", "wait", "chunk"s of 16-bit
// samples, and "end" with a link to the finished WAV; see web/tabs/speak/handlers.py. Lists play through `window.reprisePlayer`, and
// the document hears `reprise:playing`, `reprise:stopped`, `reprise:spoken` (a take is kept) and `reprise:heard`.
// Given by the page: element, trigger, props, watch. Needs deck.js, outputs.js, wav.js, words.js, player_view.js.

function decodePcm(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Int16Array(bytes.buffer);
}

const newTicket = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");

class Player {
  constructor() {
    this.shelf = new Shelf();
    this.deck = new Deck(openOutput, (...told) => this.told(...told));
    this.view = new PlayerView(element, this);
    this.wishes = 0; // to play a take of the list
    this.before = null; // what was on when a take began that has no sound yet: { sound, place }
    this.reset();
    watch("value", () => this.receive(props.value));
  }

  // ---- the take that is spoken

  reset(ticket = null) {
    this.ticket = ticket;
    this.live = null; // its Sound, once the engine has begun
    this.nextMessage = 0;
    this.status = "";
    this.state = "empty";
    this.stats = {
      ticket, received: 0, chunks: 0, played: 0, underruns: 0, lost: 0,
      finished: false, stopReason: null, refilled: false,
      clickedAt: performance.now(), firstChunkAt: null, firstSoundAt: null, playedAtFinish: null, output: null,
    };
  }

  // Called in the click on Speak: browsers let sound start only from a gesture. Returns the ticket of the new take.
  begin() {
    if (this.busy) this.stop(); // nobody would hear its end
    const ticket = newTicket();
    this.wishes += 1;
    if (this.live && !this.stats.finished) this.shelf.forget(this.ticket);
    const { sound, place } = this.deck;
    this.before = sound?.complete ? { sound, place } : null;
    this.deck.clear();
    this.deck.wake(props.rate);
    this.reset(ticket);
    this.say(words("player.waiting"), "waiting");
    return ticket;
  }

  // Called in the click on Stop: silence at once; what was spoken stays. A take still in the queue is abandoned.
  stop() {
    this.deck.pause();
    if (!this.busy) return;
    if (this.live) {
      trigger("halt", { ticket: this.ticket });
    } else {
      trigger("abandon");
      this.reset();
      this.giveBack();
      this.say(words("player.stopped"), "stopped");
    }
  }

  // The event failed before it began: the queue was full.
  refused() {
    if (!this.busy) return;
    this.reset();
    this.giveBack();
    this.say(words("player.full"), "problem");
  }

  // What the page itself can see to be wrong is not sent: nothing begins.
  refuse(reason) {
    if (!this.busy) this.say(reason, "problem");
  }

  // A take has come to nothing: what was on before is on again, still, unless something else is.
  giveBack() {
    const { live, before } = this;
    Object.assign(this, { live: null, before: null });
    if (live) this.shelf.forget(live.id);
    if (this.deck.sound && this.deck.sound !== live) return;
    this.deck.clear();
    if (before) this.deck.load(this.shelf.put(before.sound), before.place, false);
  }

  // What was said of a take that came to nothing holds no longer: its text is being changed, or something else is on.
  calm() {
    if (this.busy || (this.state !== "problem" && this.state !== "stopped")) return;
    const { sound } = this.deck;
    this.say(sound ? sound.status : words("player.empty"), sound ? "finished" : "empty");
  }

  get busy() {
    return this.ticket !== null && !this.stats.finished;
  }

  receive(message) {
    if (!message?.ticket || message.ticket !== this.ticket) return;
    if (message.number < this.nextMessage) return; // Gradio sends the last one again when the event is done
    this.nextMessage = message.number + 1;
    this.status = message.status;
    if (message.kind === "start") this.start(message);
    else if (message.kind === "wait") this.say(this.status, "waiting");
    else if (message.kind === "chunk") this.addChunk(message);
    else this.finish(message);
  }

  start({ rate, expected }) {
    this.live = this.shelf.put(new Sound(this.ticket, rate, { expected: expected * rate }));
    this.deck.load(this.live);
    this.say(this.status, "waiting");
  }

  addChunk({ start, pcm }) {
    const samples = decodePcm(pcm);
    this.stats.firstChunkAt ??= performance.now();
    this.before = null;
    this.stats.chunks += 1;
    this.stats.received += samples.length;
    this.deck.feed(this.live, start, samples);
    this.say(this.status, "speaking");
  }

  finish({ wav, stop_reason: reason, total, problem, take }) {
    Object.assign(this.stats, { finished: true, stopReason: reason, playedAtFinish: this.stats.played });
    if (!total) {
      this.giveBack();
    } else if (this.live) {
      Object.assign(this.live, { wav: wav && { ...wav }, status: this.status });
      this.deck.finish(this.live);
      if (take) this.rename(take);
      if (wav?.url && (this.live.length !== total || this.live.lost)) this.refill(wav.url);
      if (take) tellAll("spoken", { id: take, ms: firstSound(this.stats) });
    }
    this.say(this.status, problem ? "problem" : total ? "finished" : "stopped");
  }

  // From now on the take list's name for it is its own.
  rename(id) {
    this.shelf.forget(this.live.id);
    this.live.id = id;
    this.shelf.put(this.live);
  }

  // The WAV is whole even where a message was lost on its way.
  async refill(url) {
    const { live } = this;
    this.stats.refilled = true;
    const sound = this.shelf.put(Sound.whole(live.id, await fetchedWav(url)));
    Object.assign(sound, { wav: live.wav, status: live.status, ms: live.ms });
    if (this.live === live) this.live = sound;
    if (this.deck.sound === live) this.deck.load(sound, 0, false);
  }

  // ---- the take list

  // Plays a take: `source` is Int16Array samples, { rate, samples }, or an URL of a 16-bit WAV; none where the browser
  // holds the take. title: shown while it is on. Goes on where it was paused. False when it cannot be had, or another
  // was asked for meanwhile.
  async play(id, source, title = "") {
    this.deck.wake(props.rate); // in the click, before anything is fetched
    const sound = await this.had([[id, source, title]]).then((sounds) => sounds?.[0]);
    if (!sound) return false;
    if (this.deck.sound !== sound) this.deck.load(sound);
    else if (!this.deck.wanted) this.deck.play();
    this.calm();
    this.view.show();
    return true;
  }

  // The same button again: pause.
  async toggle(id, source, title) {
    if (this.playing !== id) return this.play(id, source, title);
    this.deck.pause();
    return true;
  }

  // Switches between two takes at the same share of their length; each is an id, or [id, source, title]. Gives the id of the
  // one that sounds now, null when one cannot be had.
  async compare(...pair) {
    this.deck.wake(props.rate);
    const sounds = await this.had(pair.map((take) => [take].flat()));
    if (!sounds) return null;
    const on = sounds.indexOf(this.deck.sound);
    this.deck.load(sounds[on === 0 ? 1 : 0], on < 0 || this.deck.at.ended ? 0 : this.deck.place);
    this.calm();
    this.view.show();
    return this.deck.sound.id;
  }

  async had(takes) {
    const wish = ++this.wishes;
    try {
      const sounds = await Promise.all(takes.map((take) => this.fetched(...take)));
      return wish === this.wishes ? sounds : null;
    } catch (error) {
      if (wish === this.wishes) this.say(words("player.unplayable", { reason: error.message }), "problem");
      return null;
    }
  }

  async fetched(id, source, title = "") {
    const known = this.shelf.get(id);
    if (known) return known;
    if (!source) throw new Error(words("player.gone"));
    const samples = source instanceof Int16Array ? { rate: props.rate, samples: source } : source;
    const sound = Sound.whole(id, samples.samples ? samples : await fetchedWav(source));
    return this.shelf.put(Object.assign(sound, { status: title }));
  }

  // The id of the take that sounds, or is about to; null in silence.
  get playing() {
    return this.deck.wanted ? this.deck.sound.id : null;
  }

  // A take that was deleted is not here any more either.
  forget(id) {
    this.shelf.forget(id);
    if (this.before?.sound.id === id) this.before = null;
    if (this.deck.sound?.id !== id) return;
    this.deck.clear();
    if (this.live?.id === id) this.live = null;
    if (!this.busy) this.say(words("player.empty"), "empty");
    this.view.show();
  }

  // ---- what the deck tells

  told(event, id, reason) {
    if (event !== "moved") tellAll(event, { id, reason });
    if (this.live && this.deck.sound === this.live) this.measure(this.deck.at);
    this.view.refresh();
  }

  measure({ played, underruns, lost, startedAt }) {
    const { stats, deck } = this;
    if (underruns === undefined) return; // nothing was reported yet
    Object.assign(stats, { played, underruns, lost, output: deck.speakers.output.kind });
    if (typeof startedAt !== "number" || stats.firstSoundAt !== null) return;
    const since = (deck.speakers.context.currentTime - startedAt) * 1000;
    stats.firstSoundAt = Math.max(stats.firstChunkAt, performance.now() - since); // the two clocks differ by a little
    this.live.ms = firstSound(stats);
    tellAll("heard", { id: this.live.id, ms: this.live.ms });
    this.view.show();
  }

  say(status, state) {
    this.status = status;
    this.state = state;
    document.documentElement.toggleAttribute("data-rp-busy", this.busy);
    this.view.show();
  }
}

function tellAll(event, detail) {
  document.dispatchEvent(new CustomEvent(`reprise:${event}`, { detail }));
}

async function fetchedWav(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(words("player.answered", { status: answer.status }));
  const sound = decodeWav(await answer.arrayBuffer());
  if (!sound) throw new Error(words("player.no_wav"));
  return sound;
}

const player = new Player();
window.reprisePlayer = {
  wake: () => player.deck.wake(props.rate), // in a click after which something is to sound by itself
  begin: () => player.begin(),
  stop: () => player.stop(),
  refused: () => player.refused(),
  refuse: (reason) => player.refuse(reason),
  calm: () => player.calm(),
  play: (...take) => player.play(...take),
  toggle: (...take) => player.toggle(...take),
  compare: (first, second) => player.compare(first, second),
  pause: () => player.deck.pause(),
  seek: (time) => player.deck.seek(time),
  forget: (id) => player.forget(id),
  get playing() {
    return player.playing;
  },
  get gaps() {
    return player.deck.gaps;
  },
  get speakers() {
    return player.deck.speakers;
  },
  get stats() {
    const { stats, deck, status } = player;
    const { length = 0, id = null } = deck.sound ?? {};
    return { ...stats, length, on: id, position: deck.at.position, status };
  },
};
