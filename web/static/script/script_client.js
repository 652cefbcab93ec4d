// The scripts of the server, as this page knows them. Every request goes through one RequestQueue as the event "act", and its
// answer is the new value of the component; see web/tabs/script/handlers.py. The server speaks the cards whether or not this
// page is open; the page polls the progress.

import { RequestQueue } from "./request_queue.js";
import { words } from "../ui/words.js";

const PAGE = Math.random().toString(36).slice(2); // with a request's number, identifies the request: sent twice, it is performed once
const QUICK = 1_000; // ms between polls while the script is being spoken
const SLOW = 15_000; // while nothing happens here: another page may change it
const LIST = 5_000; // while any script of the list is being spoken
const SHARE = 10; // polling takes at most 1/SHARE of the time

export class ScriptClient {
  // send(request): sends it to the server. page: shows what the answers say, and whether they are seen; a ScriptEditor. how: as for
  // RequestQueue.
  constructor(send, page, how) {
    this.requests = new RequestQueue((request) => send({ ...request, page: PAGE }), how);
    this.page = page;
    this.script = null; // a ScriptCopy of the open script
    this.scripts = []; // the list
    this.arrived = false; // whether the owner's key is known
  }

  // quiet: not caused by the user, so the message stays. Resolves to the answer; to null if none came, or it is a refusal.
  async ask(what, values = {}, { quiet = false } = {}) {
    const { page, script } = this;
    const answer = await this.requests.ask(() => {
      return { do: what, script: script?.id ?? "", version: script?.version ?? "", values };
    });
    if (!answer) {
      page.say(words("script.lost"), "bad");
      return null;
    }
    if (page.lost) page.say("");
    if (answer.scripts) {
      this.scripts = answer.scripts;
      page.showList();
    }
    if (script && script === this.script) this.follow(answer);
    if (answer.problem) page.say(answer.problem, "bad");
    else if (answer.message || !quiet) page.say(answer.message ?? "");
    return answer.problem ? null : answer;
  }

  // Applies an answer about the open script.
  follow({ state, voices, gone }) {
    const { page, script } = this;
    if (gone) {
      page.close();
      if (script.head) page.say(words("script.discarded", { name: script.head.name })); // by another page
      return;
    }
    if (voices) page.view.offer(voices, script);
    if (!state) return;
    const news = script.apply(state);
    if (news) page.showChanges(news);
    else {
      script.version = "";
      this.ask("open", {}, { quiet: true });
    }
  }

  // Ids of the scripts that are being spoken, as far as this page knows.
  get running() {
    const open = this.script?.head?.running ? [this.script.id] : [];
    return [...open, ...this.scripts.filter(({ id, running }) => running && id !== this.script?.id).map(({ id }) => id)];
  }

  async stopAll() {
    for (const id of this.running) await this.requests.ask(() => ({ do: "stop", script: id, version: "", values: {} }));
  }

  // ---- polling

  pollLater() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.poll(), this.interval);
  }

  get interval() {
    const { head } = this.script ?? {};
    if (this.page.lost) return SLOW;
    if (head?.running || head?.proof) return Math.min(SLOW, Math.max(QUICK, SHARE * (this.took ?? 0)));
    return !this.script && this.scripts.some(({ running }) => running) ? LIST : SLOW;
  }

  // A script that is being spoken is polled also while it is not seen.
  async poll() {
    const { page, script } = this;
    if (script ? page.isSeen || script.head?.running : page.isSeen && this.arrived) {
      await this.ask(script ? "poll" : "list", {}, { quiet: true });
      this.took = this.requests.took;
    }
    this.pollLater();
  }
}
