// Sends the page's requests in place of `fetch`, which Gradio's client calls for each event. It drops stale answers. When
// the connection is lost, it ends the events under way; otherwise Gradio would never send another event. Requests that are
// not answered when the server is gone end as well, some time later, and those that join the queue, which is answered at
// once, in any case: a phone that changes its network may not tell that its connections have ended.
// Calls name the page's version, because the server may have another one by now, with other numbers for its events.

import { Messages, QueuedEvents } from "./messages.js";

const RUN = /\/gradio_api\/run\//;
const JOIN = /\/gradio_api\/queue\/join/;
const FUNCTION = /\/gradio_api\/component_server/;
const STREAM = /\/gradio_api\/queue\/data/;
const VERSION = "X-Reprise-Page";
const NO_SERVER = [502, 504]; // answers of a proxy whose server is gone
const BEAT = 15_000; // ms between heartbeats of the stream
const MISSED = 4; // heartbeats, after which the stream counts as lost: a phone that slept may not tell that its connection has ended
const UNANSWERED = 30_000; // ms for an answer, as long as the server waits for a request (web/http/request_body.py)
const TRIES = 5; // of an event that is repeated; a proxy may answer each time for a server that is there
const USELESS = [401, 409]; // the user has to log in again, or the page is of another version
// Sentences about the statuses with which an event of the queue is refused.
const REFUSALS = {
  401: "player.reload",
  409: "player.reload",
  413: "player.too_long",
  422: "player.reload",
  429: "player.full",
  503: "player.full",
};
// Ends all events that wait for messages of the stream. Gradio opens a new stream for the next event.
const ENDED = [
  { msg: "unexpected_error", event_id: null, message: "", session_not_found: false, success: false },
  { msg: "close_stream", event_id: null },
].map((message) => `data: ${JSON.stringify(message)}\n\n`).join("");

const json = (value, status) =>
  new Response(JSON.stringify(value), { status, headers: { "Content-Type": "application/json" } });
const noAnswer = () => json({ error: null }, 503);
const ended = () => new Response(ENDED, { headers: { "Content-Type": "text/event-stream" } });

export class Transport {
  // fetch: the browser's. answers: a LatestAnswers. version: the page's. lost(): a request or its answer was lost.
  // useless(): the server refuses the calls of this page. refused(): it has refused what the user did; missed(): its answer to
  // that is lost. What the page asks for by itself, it asks for again. unsent(data): the server has not taken an event of the
  // queue, or its answer is lost. isActive(): whether the user has just done something. present(): resolves when the server is
  // reachable. after(ms, done): a timer.
  constructor({ fetch, isActive = () => true, after = (ms, done) => setTimeout(done, ms), ...more }) {
    Object.assign(this, { browsers: fetch, isActive, after, ...more });
    this.joined = null; // the status with which the server answered the last event of the queue
    this.events = new QueuedEvents();
    this.away = false; // whether the server is gone
    this.unanswered = new Set(); // an AbortController for each request
  }

  // Called when the server is gone, and when it is back.
  watched(away) {
    this.away = away;
    if (away) this.unanswered.forEach((request) => this.endLater(request));
  }

  endLater(request) {
    const end = () => request.abort(new DOMException("The connection is lost.", "TimeoutError"));
    this.after(UNANSWERED, () => this.unanswered.has(request) && end());
  }

  // The browser's `fetch`. soon: whether the request ends if it is not answered soon.
  async fetch(input, options, soon = this.away) {
    const request = new AbortController();
    const own = options?.signal ?? input.signal;
    if (own?.aborted) request.abort(own.reason);
    own?.addEventListener("abort", () => request.abort(own.reason));
    this.unanswered.add(request);
    if (soon) this.endLater(request);
    try {
      return await this.browsers(input, { ...options, signal: request.signal });
    } catch (error) {
      throw request.signal.aborted ? request.signal.reason : error; // some browsers reject with an AbortError, whatever the reason
    } finally {
      this.unanswered.delete(request);
    }
  }

  // Why the last event of the queue failed, as the key of a sentence.
  get failure() {
    return REFUSALS[this.joined] ?? "player.failed";
  }

  async send(input, options) {
    const url = String(input?.url ?? input);
    if (RUN.test(url)) return this.run(input, options);
    if (STREAM.test(url)) return this.stream(input, options);
    if (JOIN.test(url)) return this.join(input, options);
    try {
      return await (FUNCTION.test(url) ? this.call(input, options) : this.fetch(input, options));
    } catch (error) {
      this.notice(error);
      throw error;
    }
  }

  // The page aborts requests itself: an abort does not mean that the connection is lost, or that it has not come back.
  notice(error) {
    if (!["AbortError", "TimeoutError"].includes(error.name)) this.lost();
  }

  async call(input, options, soon = this.away) {
    const headers = new Headers(options.headers);
    headers.set(VERSION, this.version);
    const response = await this.fetch(input, { ...options, headers }, soon);
    if (NO_SERVER.includes(response.status)) this.lost();
    if (USELESS.includes(response.status)) this.useless();
    return response;
  }

  async join(input, options) {
    const unsent = () => this.unsent(JSON.parse(options.body).event_data);
    try {
      const response = await this.call(input, options, true);
      this.joined = response.status;
      if (response.ok) this.events.join((await response.clone().json()).event_id);
      else unsent();
      return response;
    } catch (error) {
      this.joined = null;
      unsent();
      this.notice(error);
      return noAnswer();
    }
  }

  async run(input, options) {
    const request = this.answers.ask(JSON.parse(options.body).fn_index);
    const isUsers = !request.shows && !request.follows && this.isActive();
    try {
      const response = await this.answered(input, options, request.repeats ? TRIES : 1);
      if (!response.ok) {
        this.answers.failed(request);
        if (isUsers && NO_SERVER.includes(response.status)) this.missed();
        else if (isUsers && !USELESS.includes(response.status)) this.refused();
        return response;
      }
      const answer = await response.json();
      return json({ ...answer, data: this.answers.settle(request, answer.data) }, response.status);
    } catch (error) {
      this.answers.failed(request);
      this.notice(error);
      if (isUsers && error.name !== "AbortError") this.missed();
      return noAnswer();
    }
  }

  // Makes a call, and again if no answer came, at most `tries` times.
  async answered(input, options, tries) {
    try {
      const response = await this.call(input, options);
      if (tries === 1 || !NO_SERVER.includes(response.status)) return response;
    } catch (error) {
      if (tries === 1 || error.name === "AbortError") throw error;
      this.notice(error);
    }
    await this.present();
    return this.answered(input, options, tries - 1);
  }

  async stream(input, options) {
    try {
      const response = await this.fetch(input, options);
      if (!response.ok || !response.body) return response;
      return new Response(this.messages(response.body, () => this.fetch(input, options, true)), response);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      this.notice(error);
      return ended();
    }
  }

  // Returns a stream of the messages of `body`, and of those of `more()` if the server closes it while an event is waiting. It
  // ends the waiting events when it closes, breaks off or is silent.
  messages(body, more) {
    let [reader, messages] = [body.getReader(), new Messages()];
    let missed = 0; // heartbeats in a row
    const beats = setInterval(() => {
      missed += 1;
      if (missed < MISSED) return;
      clearInterval(beats);
      this.lost();
      reader.cancel().catch(() => {}); // ends the reading
    }, BEAT);
    const finish = (controller) => {
      clearInterval(beats);
      if (!messages.closed) this.events.clear();
      controller.enqueue(new TextEncoder().encode(ENDED));
      controller.close();
    };
    return new ReadableStream({
      pull: async (controller) => {
        try {
          for (let text = ""; !text; ) {
            const { done, value } = await reader.read();
            missed = 0;
            if (done && !messages.continued) return finish(controller);
            if (done) [reader, messages] = [(await more()).body.getReader(), new Messages()];
            else text = messages.take(value, this.events);
            if (text) controller.enqueue(new TextEncoder().encode(text));
          }
        } catch (error) {
          this.notice(error);
          if (error.name !== "AbortError") return finish(controller);
          clearInterval(beats);
          controller.error(error);
        }
      },
      cancel: (reason) => {
        clearInterval(beats);
        return reader.cancel(reason);
      },
    });
  }
}
