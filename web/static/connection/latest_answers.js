// Drops late answers. Answers of the server overtake each other, and what they answer may have changed meanwhile: of
// events that show something, only the answer to the latest request counts, and no answer undoes what the user chose
// after it was asked for.

const SHOWS = "only the latest answer counts"; // in the script of such events: web/ui/events.py
export const UNCHANGED = { __type__: "update" }; // Gradio then leaves the component as it is

const isUpdate = (value) => value?.__type__ === "update";
const isUnchanged = (value) => isUpdate(value) && Object.keys(value).length === 1;

export class LatestAnswers {
  // events: those of Gradio's configuration: { id, outputs, js }; components are known by their ids.
  constructor(events) {
    this.events = new Map(events.map((event) => [event.id, event]));
    this.count = 0; // of requests and choices, which numbers them
    this.requests = new Map(); // by component: numbers of the requests that fill it, without those that failed
    this.choices = new Map(); // by component: number of the user's last choice
  }

  // An event is sent. Returns its request, for `failed` or `settle`.
  ask(id) {
    const { outputs = [], js } = this.events.get(id) ?? {};
    const request = { number: ++this.count, outputs, shows: Boolean(js?.includes?.(SHOWS)) };
    if (request.shows) outputs.forEach((component) => this.note(request, component));
    return request;
  }

  // The user changed a component.
  chose(component) {
    this.choices.set(component, ++this.count);
  }

  // No answer will come: earlier ones count again.
  failed({ number, outputs }) {
    for (const component of outputs) this.requests.get(component)?.delete(number);
  }

  // The values of an answer, one for each output, without those that are late.
  settle(request, values) {
    return values.map((value, i) => this.current(request, request.outputs[i], value));
  }

  current(request, component, value) {
    if (request.shows && this.overtaken(request, component)) return UNCHANGED;
    // An action fills what it answers with a value, and only then.
    if (!request.shows && !isUnchanged(value)) this.note(request, component);
    if (!(this.choices.get(component) > request.number)) return value;
    if (!isUpdate(value)) return UNCHANGED;
    const { value: _late, ...others } = value;
    return others;
  }

  note({ number }, component) {
    const numbers = this.requests.get(component) ?? new Set();
    this.requests.set(component, numbers.add(number));
  }

  overtaken({ number }, component) {
    const numbers = this.requests.get(component);
    const later = Math.max(...numbers) > number;
    if (!later) numbers.forEach((each) => each < number && numbers.delete(each)); // they are late from now on
    return later;
  }
}
