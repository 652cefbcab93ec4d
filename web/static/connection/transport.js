// Sends the page's requests in place of `fetch`, which Gradio's client calls for each event. It drops stale answers. When
// the connection is lost, it ends the events under way; otherwise Gradio would never send another event.

const CALL = /\/gradio_api\/run\//;
const JOIN = /\/gradio_api\/queue\/join/;
const STREAM = /\/gradio_api\/queue\/data/;
const NO_SERVER = [502, 504]; // answers of a proxy whose server is gone
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
  // fetch: the browser's. answers: a LatestAnswers. lost(): a request or its answer was lost.
  constructor({ fetch, answers, lost }) {
    Object.assign(this, { fetch, answers, lost });
  }

  async send(input, options) {
    const url = String(input?.url ?? input);
    if (CALL.test(url)) return this.call(input, options);
    if (STREAM.test(url)) return this.stream(input, options);
    try {
      return await this.fetch(input, options);
    } catch (error) {
      this.notice(error);
      if (!JOIN.test(url)) throw error;
      return noAnswer();
    }
  }

  // The page aborts requests itself: an abort does not mean that the connection is lost.
  notice(error) {
    if (error.name !== "AbortError") this.lost();
  }

  async call(input, options) {
    const request = this.answers.ask(JSON.parse(options.body).fn_index);
    try {
      const response = await this.fetch(input, options);
      if (!response.ok) return this.refused(request, response);
      const answer = await response.json();
      return json({ ...answer, data: this.answers.settle(request, answer.data) }, response.status);
    } catch (error) {
      this.answers.failed(request);
      this.notice(error);
      return noAnswer();
    }
  }

  refused(request, response) {
    this.answers.failed(request);
    if (NO_SERVER.includes(response.status)) this.lost();
    return response;
  }

  async stream(input, options) {
    try {
      const response = await this.fetch(input, options);
      return response.ok && response.body ? new Response(this.whole(response.body), response) : response;
    } catch (error) {
      if (error.name === "AbortError") throw error;
      this.lost();
      return ended();
    }
  }

  // Returns a stream of `body` that ends the waiting events when it closes or breaks off.
  whole(body) {
    const reader = body.getReader();
    const finish = (controller) => {
      controller.enqueue(new TextEncoder().encode(ENDED));
      controller.close();
    };
    return new ReadableStream({
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read();
          if (done) finish(controller);
          else controller.enqueue(value);
        } catch (error) {
          this.notice(error);
          if (error.name === "AbortError") controller.error(error);
          else finish(controller);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    });
  }
}
