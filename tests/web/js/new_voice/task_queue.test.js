// The recorder's queue of requests.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TaskQueue } from "../../../../web/static/new_voice/task_queue.js";

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("tasks run in order, no more than allowed at a time, whether or not they fail", async () => {
  const queue = new TaskQueue(2);
  const ends = [];
  const add = (name) => queue.run(() => new Promise((resolve, reject) => ends.push({ name, resolve, reject })));
  const [one, two, three, four] = ["one", "two", "three", "four"].map(add);
  const names = () => ends.map(({ name }) => name);
  await turn();
  assert.deepEqual(names(), ["one", "two"]);
  ends[1].reject(new Error("no answer"));
  await assert.rejects(two, /no answer/);
  await turn();
  assert.deepEqual(names(), ["one", "two", "three"]);
  ends[0].resolve(1);
  ends[2].resolve(3);
  assert.deepEqual(await Promise.all([one, three]), [1, 3]);
  await turn();
  ends[3].resolve(4);
  assert.equal(await four, 4);
  const five = add("five");
  await turn();
  assert.deepEqual(names().at(-1), "five", "ended tasks leave their places");
  ends.at(-1).resolve();
  await five;
});
