// Changes are announced to the tabs of this page and to other pages of the browser.

import assert from "node:assert/strict";
import { test } from "node:test";

const channels = [];
globalThis.BroadcastChannel = class {
  constructor() {
    channels.push(this);
    this.sent = [];
  }

  postMessage(data) {
    this.sent.push(data);
  }
};
globalThis.window = globalThis;
globalThis.document = Object.assign(new EventTarget(), { hidden: false, hasFocus: () => true });
globalThis.addEventListener = () => {};
globalThis.history = { state: null, replaceState() {}, pushState() {} };

test("a list that the page has already is not requested again, but other pages request it", async () => {
  const { mount } = await import("../../../../web/static/connection/change_broadcast.js");
  const told = [];
  const component = { props: {}, trigger: (event) => told.push(event), watch: (_name, changed) => (component.changed = changed) };
  mount(component);
  const channel = channels.at(-1);
  const change = (what) => {
    component.props.value = { what };
    component.changed();
    return told.splice(0);
  };
  assert.deepEqual(change("voices words"), ["voices", "voice_list", "words"]);
  assert.deepEqual(change("voices history"), ["voices", "voice_list", "history"], "each event once");
  assert.deepEqual(change("history"), ["history", "voice_list"]);
  assert.deepEqual(change("listed"), ["voices"]);
  assert.deepEqual(channel.sent.slice(-2), [["history"], ["voices"]]);
  channel.onmessage({ data: ["voices"] });
  assert.deepEqual(told, ["voices", "voice_list"]);
});
