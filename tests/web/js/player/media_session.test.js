// What the system's controls show of the playback, and what they do to it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ramp } from "../helpers.js";
import { MediaSessionControls } from "../../../../web/static/player/media_session.js";
import { Playback } from "../../../../web/static/player/playback.js";
import { Sound } from "../../../../web/static/player/sound_cache.js";

const RATE = 1000;

class Metadata {
  constructor(facts) {
    Object.assign(this, facts);
  }
}

// The controls of a player with a real Playback. act(action, details): the system's button. Browsers know only some actions.
function setUp(known = ["play", "pause", "stop", "seekto", "seekbackward", "seekforward"]) {
  const stopped = [];
  const context = { resume() {}, suspend() {} };
  const playback = new Playback(async () => ({ context, output: { call() {} } }), () => {}, () => {});
  const handlers = new Map();
  const session = {
    metadata: null, playbackState: "none", position: null, told: 0,
    setActionHandler(action, handler) {
      if (!known.includes(action)) throw new TypeError("unknown action");
      handlers.set(action, handler);
    },
    setPositionState(position) {
      Object.assign(this, { position, told: this.told + 1 });
    },
  };
  const controls = new MediaSessionControls({ playback, stopAll: () => stopped.push("all") }, session, Metadata);
  const show = () => {
    controls.describe(playback.sound);
    controls.place(playback.seconds);
  };
  const act = (action, details = {}) => {
    handlers.get(action)(details);
    show();
  };
  return { playback, session, handlers, controls, stopped, show, act };
}

function spoken(text, seconds = 30) {
  const sound = Sound.whole("take", { rate: RATE, samples: ramp(0, seconds * RATE) });
  return Object.assign(sound, { facts: { text, voice: { id: "1", name: "Anna" } } });
}

test("a sound that plays is shown with its voice and its text", () => {
  const { playback, session, show } = setUp();
  show();
  assert.deepEqual([session.metadata, session.playbackState, session.told], [null, "none", 1]);
  playback.load(spoken(" Good morning.\nIt rains. "));
  show();
  assert.deepEqual({ ...session.metadata }, { title: "Good morning.\nIt rains.", artist: "Anna", album: "Reprise" });
  assert.equal(session.playbackState, "playing");
  assert.deepEqual(session.position, { duration: 30, position: 0, playbackRate: 1 });

  const { metadata, told } = session;
  show();
  assert.deepEqual([session.metadata === metadata, session.told], [true, told], "nothing has changed");

  playback.clear();
  show();
  assert.deepEqual([session.metadata, session.playbackState, session.position], [null, "none", undefined]);
});

test("the title of a long text is its beginning, that of a clip is its voice", () => {
  const { playback, session, show } = setUp();
  playback.load(spoken("😀".repeat(500)));
  show();
  assert.equal(session.metadata.title, "😀".repeat(100));
  playback.load(spoken(undefined));
  show();
  assert.deepEqual([session.metadata.title, session.metadata.artist], ["Anna", "Anna"]);
});

test("the system's buttons play, pause, seek and stop", () => {
  const { playback, session, stopped, act, show } = setUp();
  playback.load(spoken("Good morning."));
  show();
  act("pause");
  assert.deepEqual([playback.wanted, session.playbackState], [false, "paused"]);
  act("seekto", { seekTime: 12.5 });
  assert.deepEqual([playback.seconds, session.position.position], [12.5, 12.5]);
  act("seekforward");
  assert.equal(playback.seconds, 22.5);
  act("seekbackward", { seekOffset: 5 });
  assert.equal(playback.seconds, 17.5);
  act("seekforward", { seekOffset: 60 });
  assert.equal(session.position.position, 30, "at its end");
  act("seekto", { seekTime: 1 });
  act("play");
  assert.deepEqual([playback.wanted, session.playbackState, playback.seconds], [true, "playing", 1]);
  act("stop");
  assert.deepEqual(stopped, ["all"]);
});

test("the length of a take that is being spoken is its expected one, until it is longer", () => {
  const { playback, session, show } = setUp();
  const live = new Sound("live", RATE, { expected: 5 * RATE });
  live.facts = { text: "Good morning." };
  playback.load(live);
  show();
  assert.equal(session.position.duration, 5);
  playback.feed(live, 0, ramp(0, 7 * RATE));
  playback.setSpeed(1.5);
  show();
  assert.deepEqual(session.position, { duration: 7, position: 0, playbackRate: 1.5 });
});

test("without a sound, the browser's own controls apply", () => {
  const { playback, handlers, show } = setUp();
  show();
  assert.equal(handlers.size, 0);
  playback.load(spoken("Good morning."));
  show();
  assert.ok([...handlers.values()].every(Boolean));
  playback.clear();
  show();
  assert.ok([...handlers.values()].every((handler) => handler === null));
});

test("browsers that lack an action or media sessions do without", () => {
  const { playback, handlers, show } = setUp(["play", "pause"]);
  playback.load(spoken("Good morning."));
  show();
  assert.deepEqual([...handlers.keys()], ["play", "pause"]);
  const controls = new MediaSessionControls({ playback }, null);
  controls.describe(playback.sound);
  controls.place(0);
});
